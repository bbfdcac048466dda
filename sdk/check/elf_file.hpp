// What an ELF shared object says about itself, read without running any of it.
//
// Threads: any; a value.
// Errors:  parse() says what is wrong; every offset of the file is checked before it is followed.
// Limits:  files up to 256 MiB.
// Source:  System V ABI, "Linking"; symbol versions by the GNU extensions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::check {

struct ElfFile {
    bool is_64_bit = false;
    bool is_this_machine = false;
    bool is_shared_object = false;
    bool has_executable_stack = false;
    bool has_text_relocations = false;
    bool is_nodelete = false;
    bool has_gnu_unique = false;
    std::string soname, rpath;  // rpath: RPATH or RUNPATH; empty = none
    std::vector<std::string> needed;
    std::vector<std::string> exported;   // defined and visible
    std::vector<std::string> undefined;  // wanted from elsewhere

    static std::optional<ElfFile> parse(std::string_view bytes, std::string& error);
    static std::optional<ElfFile> read(const std::string& path, std::string& error);
};

}  // namespace sluice::check
