#include "plugins/trtllm/abandoned.hpp"

#include <algorithm>
#include <map>

namespace sluice::trtllm {

namespace {

std::map<std::string, std::uint64_t>& notes() {
    static std::map<std::string, std::uint64_t> all;
    return all;
}

}  // namespace

void note_abandoned(const std::string& base_url, std::uint64_t until_us, std::uint64_t now_us) {
    std::erase_if(notes(), [&](const auto& note) { return note.second <= now_us; });
    std::uint64_t& until = notes()[base_url];
    until = std::max(until, until_us);
}

std::uint64_t wait_for_abandoned_us(const std::string& base_url, std::uint64_t now_us) {
    const auto found = notes().find(base_url);
    return found == notes().end() || found->second <= now_us ? 0 : found->second - now_us;
}

}  // namespace sluice::trtllm
