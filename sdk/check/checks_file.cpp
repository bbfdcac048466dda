#include <algorithm>

#include "sdk/check/checks.hpp"
#include "sdk/check/elf_file.hpp"

namespace sluice::check {
namespace {

constexpr const char* kEntry = "sluice_plugin_entry_v1";

template <class F>
Outcome with_elf(const Subject& subject, F&& f) {
    std::string error;
    const auto elf = ElfFile::read(subject.path, error);
    if (!elf) {
        return failed(error);
    }
    if (!elf->is_64_bit) {
        return failed("not a 64-bit little-endian ELF file");
    }
    return f(*elf);
}

std::string join(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) {
        out += out.empty() ? "" : " ";
        out += name;
    }
    return out;
}

Outcome file_class(const Subject& subject) {
    return with_elf(subject, [](const ElfFile& elf) {
        if (!elf.is_shared_object) {
            return failed("not a shared object");
        }
        return elf.is_this_machine ? passed() : failed("built for another machine");
    });
}

Outcome file_exports(const Subject& subject) {
    return with_elf(subject, [](const ElfFile& elf) {
        if (elf.exported.size() != 1 || elf.exported.front() != kEntry) {
            return failed("exports " + std::to_string(elf.exported.size()) +
                          " symbols instead of " + kEntry +
                          " alone: " + join(elf.exported).substr(0, 400));
        }
        return passed();
    });
}

Outcome file_undefined(const Subject& subject) {
    return with_elf(subject, [](const ElfFile& elf) {
        for (const std::string& name : elf.undefined) {
            if (name.starts_with("sluice_") || name.find("6sluice") != std::string::npos) {
                return failed("wants " + name + " of the gateway; the tables are the only way in");
            }
        }
        return passed();
    });
}

Outcome file_hygiene(const Subject& subject) {
    return with_elf(subject, [](const ElfFile& elf) {
        if (!elf.rpath.empty()) {
            return failed("has the run path " + elf.rpath);
        }
        if (elf.has_text_relocations) {
            return failed("has text relocations");
        }
        if (elf.has_executable_stack) {
            return failed("wants an executable stack");
        }
        return elf.soname.empty() ? passed() : failed("has the SONAME " + elf.soname);
    });
}

Outcome file_nodelete(const Subject& subject) {
    return with_elf(subject, [](const ElfFile& elf) {
        return elf.is_nodelete ? passed() : failed("not linked with -z nodelete");
    });
}

Outcome file_needed(const Subject& subject) {
    return with_elf(subject, [](const ElfFile& elf) {
        for (const std::string& name : elf.needed) {
            if (name.starts_with("libsluice")) {
                return failed("depends on " + name + " of the gateway");
            }
        }
        return passed(join(elf.needed));
    });
}

}  // namespace

void add_file_checks(std::vector<Check>& out) {
    out.push_back({1, "file.class", "a 64-bit shared object for this machine", &file_class});
    out.push_back({1, "file.exports", "exactly one exported symbol, the entry", &file_exports});
    out.push_back({1, "file.undefined", "no undefined symbol of the gateway", &file_undefined});
    out.push_back({1, "file.hygiene", "no run path, text relocations, executable stack or SONAME",
                   &file_hygiene});
    out.push_back({1, "file.nodelete", "linked to stay loaded", &file_nodelete});
    out.push_back({1, "file.needed", "lists what it depends on", &file_needed});
}

}  // namespace sluice::check
