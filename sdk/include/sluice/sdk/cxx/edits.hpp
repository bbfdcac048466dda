// "Set this member, drop that one" on a JSON object, turned into ascending disjoint spans.
//
// Only top-level members are touched, in the order and spelling the client sent them; what is not
// named stays byte for byte. A name that occurs twice is set once (at its first place) and its
// other occurrences go away, so that no parser can see the old value.
//
// Threads: none of its own.
// Errors:  none; the sink's status is passed on by emit().
// Limits:  as many members as the request's field list.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/sdk/cxx/core.hpp"
#include "sluice/sdk/engine.h"
#include "sluice/sdk/request.h"

namespace sluice {

// `s` as a JSON string with its quotes. Bytes above 0x7f are kept: valid UTF-8 stays valid.
inline std::string json_quote(std::string_view s) {
    static constexpr char kHex[] = "0123456789abcdef";
    std::string out = "\"";
    for (char c : s) {
        const auto u = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (u < 0x20) {
            out += "\\u00";
            out += kHex[u >> 4U];
            out += kHex[u & 15U];
        } else {
            out += c;
        }
    }
    return out += '"';
}

class Edits {
public:
    Edits(sluice_bytes body, sluice_array fields)
        : body_(text(body)), fields_(fields), verbs_(fields.count) {}

    // `json` is the value's text as it shall stand in the body.
    Edits& set(std::string_view name, std::string json) {
        bool done = false;
        for (std::uint32_t i = 0; i < fields_.size(); ++i) {
            if (view(fields_[i].name) == name) {
                verbs_[i] = Verb{done ? Verb::Drop : Verb::Replace, done ? std::string() : json};
                done = true;
            }
        }
        if (!done) {
            for (Added& a : added_) {
                if (a.name == name) {
                    a.json = std::move(json);
                    return *this;
                }
            }
            added_.push_back({std::string(name), std::move(json)});
        }
        return *this;
    }
    Edits& erase(std::string_view name) {
        for (std::uint32_t i = 0; i < fields_.size(); ++i) {
            if (view(fields_[i].name) == name) {
                verbs_[i] = Verb{Verb::Drop, {}};
            }
        }
        std::erase_if(added_, [&](const Added& a) { return a.name == name; });
        return *this;
    }
    bool has(std::string_view name) const noexcept { return find(name) != nullptr; }
    // The client's member of that name as it was sent, or NULL.
    const sluice_field* find(std::string_view name) const noexcept {
        for (const sluice_field& f : fields_) {
            if (view(f.name) == name) {
                return &f;
            }
        }
        return nullptr;
    }
    std::string_view value(const sluice_field& f) const noexcept {
        return body_.substr(f.value_at, f.value_bytes);
    }

    struct Span {
        std::uint64_t at = 0, erase = 0;
        std::string data;
    };
    std::vector<Span> spans() const {
        std::vector<Span> out;
        bool kept = false;
        for (std::uint32_t i = 0; i < fields_.size(); ++i) {
            const sluice_field& f = fields_[i];
            if (verbs_[i].what != Verb::Drop) {
                if (verbs_[i].what == Verb::Replace) {
                    out.push_back({f.value_at, f.value_bytes, verbs_[i].json});
                }
                kept = true;
                continue;
            }
            // After a kept member the comma in front goes with the dropped one; in the leading run
            // it is the comma behind.
            const bool last = i + 1 == fields_.size();
            const std::uint64_t from = kept ? end_of(i - 1) : f.at;
            const std::uint64_t to = kept || last ? end_of(i) : fields_[i + 1].at;
            out.push_back({from, to - from, {}});
        }
        if (!added_.empty()) {
            out.push_back({fields_.empty() ? after_brace() : end_of(fields_.size() - 1), 0, {}});
            for (const Added& a : added_) {
                out.back().data += kept ? "," : "";
                out.back().data += json_quote(a.name) + ":" + a.json;
                kept = true;
            }
        }
        return out;
    }
    sluice_status emit(const sluice_leg_out& to) const {
        for (const Span& s : spans()) {
            const sluice_status status =
                to.edit(to.ctx, s.at, s.erase, s.data.data(), s.data.size());
            if (status != SLUICE_OK) {
                return status;
            }
        }
        return SLUICE_OK;
    }

private:
    struct Verb {
        enum What { Keep, Replace, Drop } what = Keep;
        std::string json;
    };
    struct Added {
        std::string name, json;
    };
    std::uint64_t end_of(std::uint32_t i) const noexcept {
        return fields_[i].value_at + fields_[i].value_bytes;
    }
    std::uint64_t after_brace() const noexcept {
        const std::size_t brace = body_.find('{');
        return brace == std::string_view::npos ? 0 : brace + 1;
    }

    std::string_view body_;
    Rows<sluice_field> fields_;
    std::vector<Verb> verbs_;
    std::vector<Added> added_;
};

}  // namespace sluice
