// Reads published payloads back with the plugin that reads engines of this form, into an index.
//
// Threads: none.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/kv/index.hpp"
#include "plugins/vllm/translate.hpp"

namespace sluice::flow::test {

inline std::span<const std::uint8_t> bytes(const std::string& s) {
    return {reinterpret_cast<const std::uint8_t*>(s.data()), s.size()};
}

inline vllm::Batch decoded(const std::string& payload) {
    vllm::Batch out;
    REQUIRE(vllm::decode(bytes(payload), out));
    CHECK(out.skipped == 0);
    return out;
}

inline sluice_kv_batch batch_of(std::vector<sluice_kv_event>& events, std::uint32_t rank = 0) {
    sluice_kv_batch out{};
    out.size = sizeof out;
    out.endpoint = 1;
    out.dp_rank = rank;
    out.events = {events.data(), static_cast<std::uint32_t>(events.size()),
                  sizeof(sluice_kv_event)};
    return out;
}

// What somebody knows who reads all that is published.
class Reader {
public:
    Reader() : index(kv::IndexOptions{}) { REQUIRE(index.attach(1, 1)); }

    void read(const std::vector<std::string>& payloads) {
        for (const std::string& payload : payloads) {
            const vllm::Batch batch = decoded(payload);
            vllm::Translated translated = translator_.translate(batch);
            CHECK(translated.not_lookup == 0);
            CHECK(translated.unknown_medium == 0);
            const sluice_kv_batch out = batch_of(translated.events);
            REQUIRE(index.apply(out));
        }
    }
    kv::Index index;

private:
    vllm::Translator translator_;
};

inline std::vector<kv::Key> keys(const kv::Index& index) {
    auto out = index.list(1, 1'000'000);
    std::sort(out.begin(), out.end());
    return out;
}

}  // namespace sluice::flow::test
