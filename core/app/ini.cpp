#include "core/app/ini.hpp"

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

Result<std::vector<IniEntry>> parse_ini(std::string_view text, const std::string& name) {
    std::vector<IniEntry> out;
    std::string section;
    std::uint32_t line_number = 0;
    const auto fail = [&](std::string_view what) {
        return Error{Code::Invalid,
                     name + ":" + std::to_string(line_number) + ": " + std::string(what)};
    };
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
        for (const IniEntry& entry : out) {
            if (entry.section == section && entry.key == key) {
                return fail("[" + section + "] " + std::string(key) +
                            " was already given in line " + std::to_string(entry.line));
            }
        }
        if (out.size() == kMaxEntries) {
            return fail("too many entries");
        }
        out.push_back({section, std::string(key), std::string(trimmed(line.substr(equals + 1))),
                       line_number});
    }
    return out;
}

Result<std::vector<IniEntry>> read_ini(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        return Error{Code::NotFound, path + ": cannot be opened"};
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
