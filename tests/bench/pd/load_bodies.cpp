#include "tests/bench/pd/load_bodies.hpp"

namespace sluice::bench {
namespace {

constexpr std::string_view kName = R"("kv_transfer_params":)";

std::string prompt_of(std::size_t bytes) {
    constexpr std::string_view kWords = "lorem ipsum dolor sit amet ";
    std::string out = R"({"model":"bench","messages":[{"role":"user","content":")";
    while (out.size() + kWords.size() + 80 < bytes) {
        out += kWords;
    }
    return out + R"("}])";
}

}  // namespace

Bodies bodies(std::size_t bytes, bool is_stream, unsigned max_tokens) {
    const std::string prompt = prompt_of(bytes);
    Bodies out;
    out.chat = prompt + R"(,"max_tokens":)" + std::to_string(max_tokens);
    if (is_stream) {
        out.chat += R"(,"stream":true,"stream_options":{"include_usage":true})";
    }
    out.decode = out.chat + "," + std::string(kName);
    out.chat += "}";
    out.prefill = prompt + R"(,"max_tokens":1,)" + std::string(kName) +
                  R"({"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,)"
                  R"("remote_block_ids":null,"remote_host":null,"remote_port":null}})";
    return out;
}

std::string_view handed_over(std::string_view answer) noexcept {
    const std::size_t name = answer.rfind(kName);
    if (name == std::string_view::npos) {
        return {};
    }
    const std::size_t at = name + kName.size();
    const std::size_t end = answer.find('}', at);  // it holds lists, but no objects
    return end == std::string_view::npos || answer[at] != '{' ? std::string_view()
                                                              : answer.substr(at, end + 1 - at);
}

}  // namespace sluice::bench
