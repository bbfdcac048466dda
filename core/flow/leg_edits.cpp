#include "core/flow/leg_edits.hpp"

#include <algorithm>

namespace sluice::flow {
namespace {

bool is_token(std::string_view name) noexcept {
    constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
    return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               kMarks.find(c) != std::string_view::npos;
    });
}

bool is_field_value(std::string_view value) noexcept {
    return std::all_of(value.begin(), value.end(),
                       [](unsigned char c) { return c == '\t' || (c >= 0x20 && c != 0x7F); });
}

}  // namespace

sluice_leg_out LegEdits::out() noexcept {
    sluice_leg_out out{};
    out.size = sizeof out;
    out.ctx = this;
    out.edit = [](void* ctx, std::uint64_t at, std::uint64_t erase, const void* data,
                  std::size_t len) -> sluice_status {
        return static_cast<LegEdits*>(ctx)->edit(
            at, erase, len == 0 ? "" : std::string_view(static_cast<const char*>(data), len));
    };
    out.set_header = [](void* ctx, sluice_str name, sluice_str value) -> sluice_status {
        return static_cast<LegEdits*>(ctx)->set_header(
            {name.ptr, name.len}, value.len == 0 ? "" : std::string_view(value.ptr, value.len));
    };
    return out;
}

sluice_status LegEdits::refuse(sluice_status why) noexcept {
    is_good_ = false;
    return why;
}

sluice_status LegEdits::edit(std::uint64_t at, std::uint64_t erase, std::string_view data) {
    if (is_ended_ || at < done_ || at > body_.size() || erase > body_.size() - at) {
        return refuse(SLUICE_E_INVALID);
    }
    if (data.size() > kMaxDataBytes - data_.size()) {
        return refuse(SLUICE_E_LIMIT);
    }
    if (at > done_) {
        parts_.push_back({false, done_, at - done_});
    }
    if (!data.empty()) {
        parts_.push_back({true, data_.size(), data.size()});
        data_ += data;
    }
    done_ = at + erase;
    erased_ += erase;
    return SLUICE_OK;
}

sluice_status LegEdits::set_header(std::string_view name, std::string_view value) {
    if (!is_token(name) || !is_field_value(value)) {
        return refuse(SLUICE_E_INVALID);
    }
    if (names_.size() == kMaxHeaders || name.size() + value.size() > kMaxHeaderBytes) {
        return refuse(SLUICE_E_LIMIT);
    }
    names_.push_back({std::string(name), std::string(value)});
    return SLUICE_OK;
}

std::span<const std::string_view> LegEdits::pieces() {
    if (!is_ended_) {
        is_ended_ = true;
        pieces_.reserve(parts_.size() + 1);
        for (const Part& part : parts_) {
            const std::string_view of = part.is_data ? std::string_view(data_) : body_;
            pieces_.push_back(of.substr(part.at, part.bytes));
        }
        if (done_ < body_.size()) {
            pieces_.push_back(body_.substr(done_));
        }
    }
    return pieces_;
}

http::HeaderSpan LegEdits::headers() {
    headers_.clear();
    for (const Name& n : names_) {
        headers_.push_back({n.name, n.value});
    }
    return headers_;
}

}  // namespace sluice::flow
