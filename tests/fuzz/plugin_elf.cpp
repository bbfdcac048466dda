// A plugin file before any of it is trusted: no bytes may lead the reader out of them.
#include <cstdint>
#include <string_view>

#include "sdk/check/elf_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string error;
    (void)sluice::check::ElfFile::parse({reinterpret_cast<const char*>(data), size}, error);
    return 0;
}
