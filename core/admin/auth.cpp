#include "core/admin/auth.hpp"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "core/base/log.hpp"
#include "core/base/metrics.hpp"
#include "core/rules/key.hpp"

namespace sluice::admin {
namespace {

constexpr std::size_t kMaxFile = 1U << 20U;

struct Fd {
    explicit Fd(int raw) : fd(raw) {}
    ~Fd() {
        if (fd >= 0) {
            ::close(fd);
        }
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    int fd;
};

Error os_error(const std::string& path) {
    return {Code::Io, path + ": " + std::strerror(errno)};
}

std::vector<std::string_view> words(std::string_view line) {
    std::vector<std::string_view> out;
    constexpr std::string_view kBlank = " \t\r";
    while (true) {
        const std::size_t begin = line.find_first_not_of(kBlank);
        if (begin == std::string_view::npos) {
            return out;
        }
        line.remove_prefix(begin);
        const std::size_t end = line.find_first_of(kBlank);
        out.push_back(line.substr(0, end));
        line.remove_prefix(end == std::string_view::npos ? line.size() : end);
    }
}

// What a header can carry and a log line and the audit trail can show.
bool is_visible(std::string_view word) {
    return std::all_of(word.begin(), word.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

// One network of IPv6 is one guesser: its holder has 2^64 addresses.
std::string guesser_name(const std::string& address) {
    if (address.find(':') == std::string::npos) {
        return address;
    }
    return rules::ipv6_network(address).value_or(address);
}

void count_failure(const char* reason) {
    metrics::registry()
        .counter("sluice_api_auth_failures_total", "Management requests refused by authentication.",
                 {{"reason", reason}})
        .add();
}

Response unauthorized(const char* reason, std::string message) {
    count_failure(reason);
    Response out = refusal_response({401, "unauthorized", "", std::move(message), ""});
    out.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"sluice\"");
    return out;
}

// The token of `Bearer x`; empty without one.
std::string_view bearer(std::string_view header) {
    constexpr std::string_view kScheme = "bearer ";
    if (header.size() < kScheme.size()) {
        return {};
    }
    const bool is_bearer =
        std::equal(kScheme.begin(), kScheme.end(), header.begin(), [](char want, char have) {
            return want == (have >= 'A' && have <= 'Z' ? static_cast<char>(have + 32) : have);
        });
    const auto parts = words(header);
    return is_bearer && parts.size() == 2 ? parts[1] : std::string_view();
}

}  // namespace

Result<Tokens> Tokens::load(const std::string& path) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (file.fd < 0) {
        return os_error(path);
    }
    struct stat info{};
    if (::fstat(file.fd, &info) != 0) {
        return os_error(path);
    }
    if (!S_ISREG(info.st_mode)) {
        return Error{Code::Invalid, path + ": not a regular file"};
    }
    if ((info.st_mode & 0177U) != 0) {
        return Error{Code::Invalid,
                     path + ": others may read or write it; it must have mode 0600 or less"};
    }
    if (static_cast<std::size_t>(info.st_size) > kMaxFile) {
        return Error{Code::Limit, path + ": larger than 1 MiB"};
    }
    std::string text(static_cast<std::size_t>(info.st_size), '\0');
    std::size_t have = 0;
    while (have < text.size()) {
        const ssize_t n = ::read(file.fd, text.data() + have, text.size() - have);
        if (n < 0) {
            return os_error(path);
        }
        if (n == 0) {
            break;
        }
        have += static_cast<std::size_t>(n);
    }
    text.resize(have);
    auto tokens = parse(text);
    OPENSSL_cleanse(text.data(), text.size());
    if (!tokens) {
        return std::move(tokens).error().at(path);
    }
    return tokens;
}

Result<Tokens> Tokens::parse(std::string_view text) {
    Tokens out;
    std::set<std::string, std::less<>> names;
    for (std::size_t line_number = 1; !text.empty(); ++line_number) {
        const std::size_t end = text.find('\n');
        const auto parts = words(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        if (parts.empty() || parts[0].front() == '#') {
            continue;
        }
        const auto wrong = [line_number](std::string_view why) {
            return Error{Code::Invalid,
                         "line " + std::to_string(line_number) + ": " + std::string(why)};
        };
        if (parts.size() != 3) {
            return wrong("expected `name role token`");
        }
        if (parts[1] != "admin" && parts[1] != "viewer") {
            return wrong("the role is admin or viewer");
        }
        if (!is_visible(parts[0]) || !is_visible(parts[2])) {
            return wrong("name and token are visible ASCII characters");
        }
        if (parts[0].size() > kMaxName) {
            return wrong("the name is longer than " + std::to_string(kMaxName) + " bytes");
        }
        if (!names.emplace(parts[0]).second) {
            return wrong("the name is given twice");
        }
        if (out.find(parts[2])) {
            return wrong("the token is given twice");
        }
        if (out.entries_.size() == kMaxTokens) {
            return wrong("more than " + std::to_string(kMaxTokens) + " tokens");
        }
        Entry entry;
        entry.name = parts[0];
        entry.role = parts[1] == "admin" ? Role::Admin : Role::Viewer;
        SHA256(reinterpret_cast<const unsigned char*>(parts[2].data()), parts[2].size(),
               entry.digest.data());
        out.entries_.push_back(std::move(entry));
    }
    if (out.entries_.empty()) {
        return Error{Code::Invalid, "no token in it"};
    }
    return out;
}

std::optional<Tokens::Match> Tokens::find(std::string_view token) const {
    // Digests have one length and no prefix in common with a near miss; every entry is compared.
    Digest digest{};
    SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
    const Entry* found = nullptr;
    for (const Entry& entry : entries_) {
        if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) {
            found = &entry;
        }
    }
    return found == nullptr ? std::nullopt : std::optional<Match>({found->name, found->role});
}

std::optional<Response> Auth::admit(Request& request, bool is_reading, std::uint64_t now_us) {
    const auto tokens = tokens_.get();
    if (tokens->empty()) {
        request.is_identified = true;
        return std::nullopt;
    }
    const std::string_view token = bearer(request.authorization);
    if (token.empty()) {
        return unauthorized("missing", "a token is needed: Authorization: Bearer <token>");
    }
    const std::string guesser = guesser_name(request.address);
    if (!may_guess(guesser, now_us)) {
        count_failure("limited");
        Response out = refusal_response(
            {429, "too_many_attempts", "", "too many wrong tokens from this address", ""});
        out.headers.emplace_back("Retry-After", std::to_string(kGuessEvery.count()));
        return out;
    }
    const auto match = tokens->find(token);
    if (!match) {
        wrong_guess(guesser, now_us);
        log::warn("management request with an unknown token", {{"from", request.address}});
        return unauthorized("unknown", "the token is not known");
    }
    request.actor = match->name;
    request.is_identified = true;
    if (match->role != Role::Admin && !is_reading) {
        count_failure("role");
        return refusal_response(
            {403, "forbidden", "", "a viewer may not do this, or read this", "the role admin"});
    }
    return std::nullopt;
}

bool Auth::may_guess(const std::string& address, std::uint64_t now_us) {
    const std::lock_guard lock(mu_);
    const auto it = guessers_.find(address);
    if (it == guessers_.end()) {
        return true;
    }
    Guesser& g = it->second;
    const std::uint64_t every_us =
        static_cast<std::uint64_t>(std::chrono::microseconds(kGuessEvery).count());
    const std::uint64_t refills = (now_us - g.since_us) / every_us;
    if (refills >= kGuesses - g.left) {
        guessers_.erase(it);  // as good as never seen
        return true;
    }
    g.left += static_cast<std::uint32_t>(refills);
    g.since_us += refills * every_us;
    return g.left > 0;
}

void Auth::wrong_guess(const std::string& address, std::uint64_t now_us) {
    const std::lock_guard lock(mu_);
    if (guessers_.size() >= kMaxAddresses && guessers_.find(address) == guessers_.end()) {
        const auto oldest = std::min_element(
            guessers_.begin(), guessers_.end(),
            [](const auto& a, const auto& b) { return a.second.seen_us < b.second.seen_us; });
        guessers_.erase(oldest);
    }
    Guesser& g = guessers_.try_emplace(address, Guesser{kGuesses, now_us, now_us}).first->second;
    g.left -= g.left > 0 ? 1 : 0;
    g.seen_us = now_us;
}

std::size_t Auth::remembered() const {
    const std::lock_guard lock(mu_);
    return guessers_.size();
}

}  // namespace sluice::admin
