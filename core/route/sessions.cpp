#include "core/route/sessions.hpp"

#include <xxhash.h>

#include <algorithm>
#include <string_view>

#include "core/base/random.hpp"

namespace sluice::route {
namespace {

// Ids that another gateway made up from a prompt name no conversation.
constexpr std::string_view kMadeUp = "auto-";

// 'c' and 'u' keep a conversation apart from a user of the same text. Nobody outside can tell which
// texts meet.
std::uint64_t hash(char kind, std::string_view text) {
    static const std::uint64_t seed = random_u64();
    const std::uint64_t out =
        XXH3_64bits_withSeed(text.data(), text.size(), seed ^ static_cast<unsigned char>(kind));
    return std::max<std::uint64_t>(out, 1);
}

}  // namespace

std::optional<Pair> Sessions::find(std::uint64_t session, std::uint64_t now_us,
                                   std::uint64_t ttl_us) {
    const std::lock_guard lock(mu_);
    const Entry* entry = entries_.peek(session);
    if (entry == nullptr) {
        return std::nullopt;
    }
    if (ttl_us != 0 && now_us - std::min(now_us, entry->used_us) > ttl_us) {
        entries_.erase(session);
        return std::nullopt;
    }
    return entry->pair;
}

void Sessions::learn(std::uint64_t session, Pair pair, std::uint64_t now_us) {
    const std::lock_guard lock(mu_);
    entries_.put(session, {pair, now_us});
}

void Sessions::forget(std::uint64_t session) {
    const std::lock_guard lock(mu_);
    entries_.erase(session);
}

void Sessions::retain(const std::function<bool(std::uint64_t)>& stays) {
    const std::lock_guard lock(mu_);
    entries_.erase_if([&](const Entry& entry) {
        return !stays(entry.pair.prefill) || !stays(entry.pair.decode);
    });
}

std::size_t Sessions::size() const {
    const std::lock_guard lock(mu_);
    return entries_.size();
}

std::uint64_t session_of(http::HeaderSpan headers, const json::Body* body,
                         json::BodyReader* reader) {
    for (const char* name : {"X-Conversation-ID", "X-Session-ID"}) {
        const std::string_view id = http::header_value(headers, name);
        if (!id.empty() && !id.starts_with(kMadeUp)) {
            return hash('c', id);
        }
    }
    const json::Field* user = body == nullptr ? nullptr : body->find("user");
    if (user == nullptr || user->type != json::Type::String) {
        return 0;
    }
    const auto text = reader->string(body->value(*user));
    return text && !text->empty() ? hash('u', *text) : 0;
}

}  // namespace sluice::route
