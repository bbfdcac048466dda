// Structured log lines: a constant message and data in fields.
//
//   log::warn("kv gap", {{"endpoint", name}, {"rank", r}, {"expected", a}, {"got", b}});
//
// Threads: any. The sink is called without a lock, so by several threads at once.
// Limits:  one message text is written at most kBurst times in kWindow; what was held back is
//          counted and said with the next line of that text. A field value is cut at 512 bytes.
// Never:   prompt text, token ids, bodies, header values, keys.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace sluice::log {

enum class Level { Error = 3, Warn = 4, Info = 6, Debug = 7 };

std::optional<Level> level_from(std::string_view name) noexcept;  // error|warn|info|debug
std::string_view to_string(Level level) noexcept;

// One named value of a line; text is quoted only where it has to be.
class Field {
public:
    Field(std::string_view key, std::string_view value);
    Field(std::string_view key, const char* value) : Field(key, std::string_view(value)) {}
    Field(std::string_view key, const std::string& value) : Field(key, std::string_view(value)) {}
    Field(std::string_view key, bool value) : Field(key, value ? "true" : "false") {}
    template <class N>
        requires(std::is_arithmetic_v<N> && !std::is_same_v<N, bool>)
    Field(std::string_view key, N value) : Field(key, std::string_view(std::to_string(value))) {}

    const std::string& text() const noexcept { return text_; }  // key=value

private:
    std::string text_;
};

using Fields = std::initializer_list<Field>;
// Gets the level and the line without time, level and newline.
using Sink = std::function<void(Level, const std::string&)>;

void set_level(Level level) noexcept;
bool enabled(Level level) noexcept;
// Replaces the sink; an empty one restores the default, which writes to stderr.
void set_sink(Sink sink);

void write(Level level, std::string_view message, Fields fields);

// The newest kRecentLines warnings and errors with their time and level, oldest first.
inline constexpr std::size_t kRecentLines = 64;
std::vector<std::string> recent();

inline void error(std::string_view message, Fields fields = {}) {
    write(Level::Error, message, fields);
}
inline void warn(std::string_view message, Fields fields = {}) {
    write(Level::Warn, message, fields);
}
inline void info(std::string_view message, Fields fields = {}) {
    write(Level::Info, message, fields);
}
inline void debug(std::string_view message, Fields fields = {}) {
    if (enabled(Level::Debug)) {
        write(Level::Debug, message, fields);
    }
}

}  // namespace sluice::log
