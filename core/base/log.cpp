#include "core/base/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "core/base/clock.hpp"

namespace sluice::log {
namespace {

constexpr std::uint64_t kWindowUs = 10'000'000;
constexpr std::uint32_t kBurst = 20;
constexpr std::size_t kMaxValue = 512;
// Messages are constants of the source, so this is only reached by text a plugin makes up.
constexpr std::size_t kMaxTexts = 4096;

struct Rate {
    std::uint64_t window_start_us = 0;
    std::uint32_t written = 0;
    std::uint32_t held_back = 0;
};

struct State {
    std::mutex mu;
    std::unordered_map<std::string, Rate> rates;  // guarded by mu
    std::shared_ptr<const Sink> sink;             // guarded by mu; null: stderr
    std::deque<std::string> recent;               // guarded by mu
};

// Leaked on purpose: threads may log while static objects are destroyed.
State& state() {
    static State* const s = new State;
    return *s;
}

std::atomic<int> g_level{static_cast<int>(Level::Info)};

bool is_plain(std::string_view value) noexcept {
    return !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
        const auto u = static_cast<unsigned char>(c);
        return u > 0x20 && u < 0x7F && c != '"' && c != '=' && c != '\\';
    });
}

void append_quoted(std::string& out, std::string_view value) {
    out += '"';
    for (const char c : value) {
        const auto u = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (u < 0x20 || u == 0x7F) {
            std::array<char, 8> hex{};
            std::snprintf(hex.data(), hex.size(), "\\x%02x", u);
            out += hex.data();
        } else {
            out += c;
        }
    }
    out += '"';
}

std::string stamped(Level level, const std::string& line) {
    const std::uint64_t wall = wall_us();
    const auto seconds = static_cast<std::time_t>(wall / 1'000'000U);
    std::tm utc{};
    ::gmtime_r(&seconds, &utc);
    std::array<char, 64> stamp{};
    const std::size_t n = std::strftime(stamp.data(), stamp.size(), "%Y-%m-%dT%H:%M:%S", &utc);
    std::snprintf(stamp.data() + n, stamp.size() - n, ".%06uZ ",
                  static_cast<unsigned>(wall % 1'000'000U));
    std::string whole = stamp.data();
    whole.append(to_string(level)).append(" ").append(line);
    return whole;
}

void write_stderr(std::string whole) {
    whole += '\n';
    // A full or closed stderr must not stop the gateway; there is nowhere left to say so.
    (void)!::write(STDERR_FILENO, whole.data(), whole.size());
}

// Whether a line of this text may be written now: how many were held back before it, or nothing.
std::optional<std::uint32_t> admit(Level level, std::string_view message) {
    if (level == Level::Debug) {
        return 0;
    }
    State& s = state();
    const std::lock_guard lock(s.mu);
    if (s.rates.size() >= kMaxTexts) {
        s.rates.clear();
    }
    Rate& rate = s.rates[std::string(message)];
    const std::uint64_t now = now_us();
    std::uint32_t held_back = 0;
    if (now - rate.window_start_us > kWindowUs) {
        held_back = rate.held_back;
        rate = Rate{now, 0, 0};
    }
    if (rate.written >= kBurst) {
        ++rate.held_back;
        return std::nullopt;
    }
    ++rate.written;
    return held_back;
}

}  // namespace

std::optional<Level> level_from(std::string_view name) noexcept {
    for (const Level level : {Level::Error, Level::Warn, Level::Info, Level::Debug}) {
        if (name == to_string(level)) {
            return level;
        }
    }
    return std::nullopt;
}

std::string_view to_string(Level level) noexcept {
    switch (level) {
        case Level::Error:
            return "error";
        case Level::Warn:
            return "warn";
        case Level::Info:
            return "info";
        case Level::Debug:
            return "debug";
    }
    return "unknown";
}

Field::Field(std::string_view key, std::string_view value) : text_(key) {
    text_ += '=';
    const bool is_cut = value.size() > kMaxValue;
    value = value.substr(0, kMaxValue);
    if (is_plain(value)) {
        text_ += value;
    } else {
        append_quoted(text_, value);
    }
    if (is_cut) {
        text_ += "...";
    }
}

void set_level(Level level) noexcept {
    g_level.store(static_cast<int>(level), std::memory_order_relaxed);
}

bool enabled(Level level) noexcept {
    return static_cast<int>(level) <= g_level.load(std::memory_order_relaxed);
}

void set_sink(Sink sink) {
    auto next = sink ? std::make_shared<const Sink>(std::move(sink)) : nullptr;
    State& s = state();
    const std::lock_guard lock(s.mu);
    s.sink.swap(next);  // the old one goes after the lock
    s.rates.clear();    // nothing was too much for the new one
}

void write(Level level, std::string_view message, Fields fields) {
    if (!enabled(level)) {
        return;
    }
    std::string line;
    if (is_plain(message)) {
        line = message;
    } else {
        append_quoted(line, message);
    }
    for (const Field& field : fields) {
        line += ' ';
        line += field.text();
    }

    const std::optional<std::uint32_t> held_back = admit(level, message);
    if (!held_back) {
        return;
    }
    if (*held_back > 0) {
        line += ' ';
        line += Field("held_back", *held_back).text();
    }
    std::string whole = stamped(level, line);
    std::shared_ptr<const Sink> sink;
    {
        const std::lock_guard lock(state().mu);
        sink = state().sink;
        if (level <= Level::Warn) {
            state().recent.push_back(whole);
            if (state().recent.size() > kRecentLines) {
                state().recent.pop_front();
            }
        }
    }
    if (sink) {
        (*sink)(level, line);
    } else {
        write_stderr(std::move(whole));
    }
}

std::vector<std::string> recent() {
    const std::lock_guard lock(state().mu);
    return {state().recent.begin(), state().recent.end()};
}

}  // namespace sluice::log
