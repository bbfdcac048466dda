#include "core/rules/snapshot.hpp"

#include <openssl/evp.h>

#include <array>
#include <set>

#include "core/base/clock.hpp"
#include "core/rules/key.hpp"
#include "core/rules/rule_book.hpp"
#include "core/rules/secrets.hpp"

namespace sluice::rules {
namespace {

// The document adds these levels to a body's own.
constexpr std::size_t kMaxDepth = Json::kMaxDepth + 4;
// Many times what the gateway has; each becomes a row and a line of the audit trail.
constexpr std::size_t kMaxSettings = 64;

std::string sha256(const std::string& text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
        return {};
    }
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string out = "sha256:";
    for (unsigned int i = 0; i < size; ++i) {
        out += kDigits[digest[i] >> 4U];
        out += kDigits[digest[i] & 15U];
    }
    return out;
}

Json body_json(const std::string& body) {
    auto document = Json::parse(body);
    if (!document) {
        return Json(body);  // stored as text it is, restored as text it will be refused
    }
    hide_secrets(*document);
    return std::move(*document);
}

Json rule_json(const state::RuleRow& row) {
    Json::Array endpoints;
    for (const state::EndpointRow& e : row.endpoints) {
        endpoints.emplace_back(Json::Object{{"id", e.id},
                                            {"ep_idx", e.ep_idx},
                                            {"endpointIP", e.ip},
                                            {"targetPort", e.port},
                                            {"ep_role", e.role}});
    }
    return Json::Object{{"number", row.number},         {"id", row.id},
                        {"generation", row.generation}, {"next_ep_idx", row.next_ep_idx},
                        {"body", body_json(row.body)},  {"endpoints", std::move(endpoints)}};
}

// Members of one object, with the place for a message. The first thing that is wrong stays.
class Reader {
public:
    Reader(const Json& json, std::string place, std::optional<Refusal>& wrong)
        : object_(json.object()), place_(std::move(place)), wrong_(wrong) {
        if (object_ == nullptr) {
            complain("", "an object");
        }
    }

    template <class N>
    N number(const char* name, std::uint64_t least, std::uint64_t most) {
        const Json* value = find(name);
        const auto* n = value == nullptr ? nullptr : value->unsigned_integer();
        if (n == nullptr || *n < least || *n > most) {
            complain(name, std::to_string(least) + ".." + std::to_string(most));
            return N{};
        }
        return static_cast<N>(*n);
    }
    std::string text(const char* name, std::size_t most) {
        const Json* value = find(name);
        if (value == nullptr || value->text() == nullptr || value->text()->empty() ||
            value->text()->size() > most) {
            complain(name, "text of 1.." + std::to_string(most) + " bytes");
            return {};
        }
        return *value->text();
    }
    const Json* object(const char* name) {
        const Json* value = find(name);
        if (value == nullptr || value->object() == nullptr) {
            complain(name, "an object");
            return nullptr;
        }
        return value;
    }
    const Json::Array& array(const char* name) {
        static const Json::Array kNone;
        const Json* value = find(name);
        if (value == nullptr || value->array() == nullptr) {
            complain(name, "a list");
            return kNone;
        }
        return *value->array();
    }
    void complain(const std::string& name, const std::string& allowed) {
        if (!wrong_) {
            const std::string field =
                place_.empty() || name.empty() ? place_ + name : place_ + "." + name;
            wrong_ = Refusal{400, "malformed_snapshot", field,
                             "the document is not what was given out: " + field, allowed};
        }
    }

private:
    const Json* find(const char* name) const {
        if (object_ == nullptr) {
            return nullptr;
        }
        const auto at = object_->find(name);
        return at == object_->end() ? nullptr : &at->second;
    }

    const Json::Object* object_;
    const std::string place_;
    std::optional<Refusal>& wrong_;
};

// Before anything is made of them: a refusal tells of every rule.
std::optional<Refusal> check_count(const Json& document) {
    const auto at = document.object()->find("rules");
    const bool is_list = at != document.object()->end() && at->second.array() != nullptr;
    const std::size_t count = is_list ? at->second.array()->size() : 0;
    if (count > RuleBook::kMaxRules) {
        return Refusal{403, "rule_hwm", "rules",
                       "rule-hwm error: the document holds " + std::to_string(count) + " rules",
                       "at most " + std::to_string(RuleBook::kMaxRules) + " rules"};
    }
    return std::nullopt;
}

// What a store could not hold, or what would be given twice.
struct Seen {
    std::set<std::uint32_t> numbers;
    std::set<std::string> ids;
    std::set<std::uint64_t> endpoint_ids;
};

state::RuleRow read_rule(const Json& json, const std::string& place,
                         const state::Counters& counters, Seen& seen,
                         std::optional<Refusal>& wrong) {
    Reader in(json, place, wrong);
    state::RuleRow row;
    row.number = in.number<std::uint32_t>("number", 1, counters.next_rule_number - 1);
    row.id = in.text("id", 4096);
    row.generation = in.number<std::uint64_t>("generation", 1, INT64_MAX / 2);
    row.next_ep_idx = in.number<std::uint32_t>("next_ep_idx", 1, INT32_MAX);
    if (const Json* body = in.object("body")) {
        row.body = body->dump();
    }
    if (!wrong && (!seen.numbers.insert(row.number).second || !seen.ids.insert(row.id).second)) {
        in.complain("number", "a number and an id that no other rule of the document has");
    }
    std::set<std::uint32_t> indexes;
    const Json::Array& endpoints = in.array("endpoints");
    for (std::size_t i = 0; i < endpoints.size() && !wrong; ++i) {
        Reader at(endpoints[i], place + ".endpoints[" + std::to_string(i) + "]", wrong);
        state::EndpointRow e;
        e.id = at.number<std::uint64_t>("id", 1, counters.next_endpoint_id - 1);
        e.ep_idx = at.number<std::uint32_t>("ep_idx", 0, row.next_ep_idx - 1);
        e.ip = canonical_ip(at.text("endpointIP", 64)).value_or("");
        e.port = at.number<std::uint16_t>("targetPort", 1, 65535);
        e.role = at.number<std::uint32_t>("ep_role", 0, 2);
        if (!wrong &&
            (!indexes.insert(e.ep_idx).second || !seen.endpoint_ids.insert(e.id).second)) {
            at.complain("id", "an id and an index that no other endpoint has");
        }
        row.endpoints.push_back(std::move(e));
    }
    return row;
}

Json head(std::uint64_t taken_us) {
    return Json::Object{{"format", kDocumentFormat}, {"taken", rfc3339(taken_us)}};
}

std::optional<Refusal> check_format(const Json& document) {
    std::optional<Refusal> wrong;
    Reader in(document, "", wrong);
    const auto format = in.number<std::uint64_t>("format", 1, INT64_MAX);
    if (!wrong && format > kDocumentFormat) {
        return Refusal{400, "format_not_supported", "format",
                       "the document was written by a newer program",
                       "1.." + std::to_string(kDocumentFormat)};
    }
    return wrong;
}

// Of the document as it was given out.
std::string digest_of(Json document) {
    document.object()->erase("digest");
    document.object()->erase("commit");
    return sha256(document.dump());
}

}  // namespace

Json snapshot_of(const state::Contents& contents, std::uint64_t taken_us) {
    Json out = head(taken_us);
    Json::Array rules;
    for (const state::RuleRow& row : contents.rules) {
        rules.push_back(rule_json(row));
    }
    Json::Object settings;
    for (const auto& [name, value] : contents.settings) {
        settings.emplace(name, is_secret(name) ? Json(kHidden) : Json(value));
    }
    Json::Object& top = *out.object();
    top.emplace("store_id", contents.marks.store_id);
    top.emplace("generation", contents.marks.generation);
    top.emplace("counters", Json::Object{{"next_rule_number", contents.counters.next_rule_number},
                                         {"next_endpoint_id", contents.counters.next_endpoint_id}});
    top.emplace("settings", std::move(settings));
    top.emplace("rules", std::move(rules));
    top.emplace("digest", digest_of(out));
    return out;
}

std::optional<Refusal> read_snapshot(const Json& document, state::Contents& out) {
    if (auto refusal = check_format(document)) {
        return refusal;
    }
    std::optional<Refusal> wrong;
    Reader in(document, "", wrong);
    const std::string digest = in.text("digest", 128);
    if (!wrong && digest != digest_of(document)) {
        return Refusal{400, "digest_mismatch", "digest",
                       "the document was changed since it was taken; to bring in edited rules use "
                       "/config/import",
                       "the document as it was given out"};
    }
    out.marks.store_id = in.text("store_id", 64);
    out.marks.generation = in.number<std::uint64_t>("generation", 0, INT64_MAX / 2);
    if (const Json* counters = in.object("counters")) {
        Reader at(*counters, "counters", wrong);
        out.counters.next_rule_number = at.number<std::uint32_t>("next_rule_number", 1, INT32_MAX);
        out.counters.next_endpoint_id =
            at.number<std::uint64_t>("next_endpoint_id", 1, INT64_MAX / 2);
    }
    if (const Json* settings = in.object("settings")) {
        Reader at(*settings, "settings", wrong);
        if (settings->object()->size() > kMaxSettings) {
            in.complain("settings", "at most " + std::to_string(kMaxSettings) + " settings");
        }
        for (const auto& [name, value] : *settings->object()) {
            if (value.text() == nullptr || *value.text() == kHidden) {
                at.complain(name, "text");
            } else {
                out.settings.emplace(name, *value.text());
            }
        }
    }
    const Json::Array& rules = in.array("rules");
    Seen seen;
    for (std::size_t i = 0; i < rules.size() && !wrong; ++i) {
        out.rules.push_back(
            read_rule(rules[i], "rules[" + std::to_string(i) + "]", out.counters, seen, wrong));
    }
    return wrong;
}

Json export_of(const state::Contents& contents, std::uint64_t taken_us) {
    Json out = head(taken_us);
    Json::Array rules;
    for (const state::RuleRow& row : contents.rules) {
        rules.push_back(body_json(row.body));
    }
    out.object()->emplace("rules", std::move(rules));
    return out;
}

std::optional<Refusal> read_export(const Json& document, std::vector<std::string>& bodies) {
    if (document.object() != nullptr && document.object()->contains("format")) {
        if (auto refusal = check_format(document)) {
            return refusal;
        }
    }
    std::optional<Refusal> wrong;
    Reader in(document, "", wrong);
    for (const Json& rule : in.array("rules")) {
        bodies.push_back(rule.dump());
    }
    if (document.object() != nullptr) {
        for (const auto& [name, value] : *document.object()) {
            if (name != "format" && name != "taken" && name != "rules" && !wrong) {
                wrong = Refusal{400, "unknown_field", name, "an import knows no member " + name,
                                "format, taken, rules"};
            }
        }
    }
    return wrong;
}

std::optional<Refusal> read_document(std::string_view text, Json& out) {
    auto parsed = Json::parse(text, kMaxDocumentBytes, kMaxDepth);
    if (!parsed) {
        const bool is_big = parsed.error().code == Code::Limit;
        return Refusal{is_big ? 413 : 400,
                       is_big ? "body_too_large" : "malformed_json",
                       "",
                       "request body: " + parsed.error().what,
                       {}};
    }
    if (parsed->object() == nullptr) {
        return Refusal{400, "malformed_json", "",
                       "request body must be an object, not " + std::string(parsed->kind()),
                       "an object"};
    }
    if (auto refusal = check_count(*parsed)) {
        return refusal;
    }
    out = std::move(*parsed);
    return std::nullopt;
}

}  // namespace sluice::rules
