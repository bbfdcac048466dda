#include "core/app/ini.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace sluice::app {
namespace {

constexpr std::size_t kMaxBytes = 1U << 20U;
constexpr std::size_t kMaxEntries = 4096;

std::string_view trimmed(std::string_view s) noexcept {
    constexpr std::string_view kBlank = " \t\r";
    const std::size_t first = s.find_first_not_of(kBlank);
    if (first == std::string_view::npos) {
        return {};
    }
    return s.substr(first, s.find_last_not_of(kBlank) - first + 1);
}

}  // namespace

Result<Ini> parse_ini(std::string_view text, const std::string& name) {
    Ini out;
    std::string section;
    std::uint32_t line_number = 0;
    const auto fail = [&](std::string_view what) {
        return Error{Code::Invalid,
                     name + ":" + std::to_string(line_number) + ": " + std::string(what)};
    };
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(kByteOrderMark)) {
        text.remove_prefix(kByteOrderMark.size());
    }
    if (text.find('\0') != std::string_view::npos) {
        return Error{Code::Invalid, name + ": not a text file of UTF-8"};
    }
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        const std::string_view line = trimmed(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        ++line_number;
        if (line.empty() || line.front() == '#' || line.front() == ';') {
            continue;
        }
        if (line.front() == '[') {
            if (line.back() != ']' || line.size() < 3) {
                return fail("a section is written [name]");
            }
            section = trimmed(line.substr(1, line.size() - 2));
            if (section.empty()) {
                return fail("a section is written [name]");
            }
            if (out.sections.size() == kMaxEntries) {
                return fail("too many sections");
            }
            out.sections.push_back({section, line_number});
            continue;
        }
        const std::size_t equals = line.find('=');
        const std::string_view key = trimmed(line.substr(0, equals));
        if (equals == std::string_view::npos || key.empty()) {
            return fail("a line is `key = value`");
        }
        if (section.empty()) {
            return fail("a key stands before the first [section]");
        }
        for (const IniEntry& entry : out.entries) {
            if (entry.section == section && entry.key == key) {
                return fail("[" + section + "] " + std::string(key) +
                            " was already given in line " + std::to_string(entry.line));
            }
        }
        if (out.entries.size() == kMaxEntries) {
            return fail("too many entries");
        }
        out.entries.push_back({section, std::string(key),
                               std::string(trimmed(line.substr(equals + 1))), line_number});
    }
    return out;
}

Result<Ini> read_ini(const std::string& path) {
    std::error_code failed;
    // Before it is opened: a pipe would keep the start waiting.
    if (std::filesystem::exists(path, failed) && !std::filesystem::is_regular_file(path, failed)) {
        return Error{Code::Invalid, path + ": not a regular file"};
    }
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        return Error{Code::NotFound, path + ": cannot be opened: " + std::strerror(errno)};
    }
    std::ostringstream text;
    text << file.rdbuf();
    if (file.bad()) {
        return Error{Code::Io, path + ": cannot be read"};
    }
    if (text.view().size() > kMaxBytes) {
        return Error{Code::Limit, path + ": larger than 1 MiB"};
    }
    return parse_ini(text.view(), path);
}

}  // namespace sluice::app
