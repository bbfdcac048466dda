#include "sdk/check/elf_file.hpp"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>

namespace sluice::check {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#else
constexpr std::uint16_t kMachine = EM_NONE;
#endif
constexpr std::size_t kMaxFile = 256U << 20U;

class Reader {
public:
    Reader(std::string_view bytes, std::string& error) : bytes_(bytes), error_(error) {}

    bool read(ElfFile& out) {
        Elf64_Ehdr head{};
        if (!at(0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) {
            return fail("not an ELF file");
        }
        out.is_64_bit =
            head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_ident[EI_DATA] == ELFDATA2LSB;
        if (!out.is_64_bit) {
            return true;  // nothing else could be read the way we read
        }
        out.is_this_machine = head.e_machine == kMachine;
        out.is_shared_object = head.e_type == ET_DYN;
        return segments(head, out) && sections(head, out);
    }

private:
    bool fail(const char* why) {
        error_ = why;
        return false;
    }

    template <class T>
    bool at(std::uint64_t offset, T& out) const {
        if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) {
            return false;
        }
        std::memcpy(&out, bytes_.data() + offset, sizeof(T));
        return true;
    }

    std::string text(std::uint64_t table, std::uint64_t table_bytes, std::uint64_t offset) const {
        if (offset >= table_bytes || table > bytes_.size() || bytes_.size() - table < table_bytes) {
            return {};
        }
        const std::string_view rest = bytes_.substr(table + offset, table_bytes - offset);
        return std::string(rest.substr(0, rest.find('\0')));
    }

    bool segments(const Elf64_Ehdr& head, ElfFile& out) {
        // Without the header the kernel grants an executable stack.
        out.has_executable_stack = true;
        for (std::uint16_t i = 0; i < head.e_phnum; ++i) {
            Elf64_Phdr segment{};
            if (!at(head.e_phoff + std::uint64_t{i} * head.e_phentsize, segment)) {
                return fail("program headers lead out of the file");
            }
            if (segment.p_type == PT_GNU_STACK) {
                out.has_executable_stack = (segment.p_flags & PF_X) != 0;
            }
        }
        return true;
    }

    bool sections(const Elf64_Ehdr& head, ElfFile& out) {
        bool has_dynamic = false;
        bool has_symbols = false;
        for (std::uint16_t i = 0; i < head.e_shnum; ++i) {
            Elf64_Shdr section{};
            if (!section_at(head, i, section)) {
                return fail("section headers lead out of the file");
            }
            if (section.sh_type != SHT_DYNAMIC && section.sh_type != SHT_DYNSYM) {
                continue;
            }
            Elf64_Shdr strings{};
            if (!section_at(head, section.sh_link, strings)) {
                return fail("a section has no strings");
            }
            if (section.sh_type == SHT_DYNAMIC) {
                has_dynamic = true;
                dynamic(section, strings, out);
            } else {
                has_symbols = true;
                symbols(section, strings, out);
            }
        }
        return (has_dynamic && has_symbols) || fail("no dynamic section or no dynamic symbols");
    }

    bool section_at(const Elf64_Ehdr& head, std::uint64_t index, Elf64_Shdr& out) const {
        return index < head.e_shnum && at(head.e_shoff + index * head.e_shentsize, out);
    }

    void dynamic(const Elf64_Shdr& section, const Elf64_Shdr& strings, ElfFile& out) const {
        Elf64_Dyn entry{};
        for (std::uint64_t offset = 0; offset + sizeof entry <= section.sh_size;
             offset += sizeof entry) {
            if (!at(section.sh_offset + offset, entry) || entry.d_tag == DT_NULL) {
                return;
            }
            const auto name = [&] {
                return text(strings.sh_offset, strings.sh_size, entry.d_un.d_val);
            };
            switch (entry.d_tag) {
                case DT_NEEDED:
                    out.needed.push_back(name());
                    break;
                case DT_SONAME:
                    out.soname = name();
                    break;
                case DT_RPATH:
                case DT_RUNPATH:
                    out.rpath = name();
                    break;
                case DT_TEXTREL:
                    out.has_text_relocations = true;
                    break;
                case DT_FLAGS:
                    out.has_text_relocations =
                        out.has_text_relocations || (entry.d_un.d_val & DF_TEXTREL) != 0;
                    break;
                case DT_FLAGS_1:
                    out.is_nodelete = (entry.d_un.d_val & DF_1_NODELETE) != 0;
                    break;
                default:
                    break;
            }
        }
    }

    void symbols(const Elf64_Shdr& section, const Elf64_Shdr& strings, ElfFile& out) const {
        Elf64_Sym symbol{};
        for (std::uint64_t offset = sizeof symbol; offset + sizeof symbol <= section.sh_size;
             offset += sizeof symbol) {
            if (!at(section.sh_offset + offset, symbol)) {
                return;
            }
            const unsigned bind = ELF64_ST_BIND(symbol.st_info);
            const unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
            std::string name = text(strings.sh_offset, strings.sh_size, symbol.st_name);
            out.has_gnu_unique = out.has_gnu_unique || bind == STB_GNU_UNIQUE;
            // An absolute symbol is the name of a symbol version.
            if (symbol.st_shndx == SHN_UNDEF) {
                out.undefined.push_back(std::move(name));
            } else if (symbol.st_shndx != SHN_ABS && bind != STB_LOCAL &&
                       (visibility == STV_DEFAULT || visibility == STV_PROTECTED)) {
                out.exported.push_back(std::move(name));
            }
        }
    }

    std::string_view bytes_;
    std::string& error_;
};

}  // namespace

std::optional<ElfFile> ElfFile::parse(std::string_view bytes, std::string& error) {
    ElfFile out;
    if (!Reader(bytes, error).read(out)) {
        return std::nullopt;
    }
    return out;
}

std::optional<ElfFile> ElfFile::read(const std::string& path, std::string& error) {
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    const auto size = in ? static_cast<std::streamoff>(in.tellg()) : std::streamoff{-1};
    if (size < 0 || static_cast<std::uint64_t>(size) > kMaxFile) {
        error = "cannot be read";
        return std::nullopt;
    }
    std::string bytes(static_cast<std::size_t>(size), '\0');
    in.seekg(0);
    in.read(bytes.data(), size);
    if (!in) {
        error = "cannot be read";
        return std::nullopt;
    }
    return parse(bytes, error);
}

}  // namespace sluice::check
