// A configuration file as entries that remember their line.
//
// Poco's reader drops line numbers and takes what it does not understand; an operator's typo must
// be named with its place, so the file is read here: "[section]", "key = value", "#" and ";"
// comments on lines of their own. A byte order mark and CR LF line ends are taken.
//
// Threads: any.
// Errors:  NotFound, Io, Invalid with file and line.
// Limits:  1 MiB, 4096 entries.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace sluice::app {

struct IniEntry {
    std::string section, key, value;
    std::uint32_t line = 0;
};

struct IniSection {
    std::string name;
    std::uint32_t line = 0;
};

struct Ini {
    std::vector<IniSection> sections;  // as they are opened, also empty ones
    std::vector<IniEntry> entries;
};

Result<Ini> read_ini(const std::string& path);
// The same from text; `name` stands for the file in errors.
Result<Ini> parse_ini(std::string_view text, const std::string& name);

}  // namespace sluice::app
