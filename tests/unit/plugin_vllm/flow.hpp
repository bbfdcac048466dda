// One adapter instance on a scripted host, an engine that answers as told, and payload builders.
//
// Threads: none.
#pragma once
#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "plugins/vllm/adapter.hpp"
#include "plugins/vllm/sequence.hpp"
#include "sluice/sdk_testing.hpp"
#include "tests/unit/plugin_vllm/vectors.hpp"

namespace sluice::vllm::test {

using testing::FakeHost;
using testing::FakeSocket;
using testing::HttpReply;
using testing::KvSeen;

inline std::string frame(std::uint64_t seq) {
    const auto raw = write_sequence(seq);
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
}
inline const std::string kEnd(8, '\xff');

// A prompt's blocks as an engine would publish them.
struct Prompt {
    std::vector<std::uint32_t> tokens;
    std::vector<std::uint64_t> hashes;
    std::uint32_t block_size = 16;
    std::string salt;
};
inline Prompt prompt(std::uint32_t first_token, std::size_t blocks, std::uint32_t block_size = 16,
                     Algorithm algorithm = Algorithm::Sha256, const std::string& seed = "0",
                     const std::string& salt = "") {
    Prompt p;
    p.block_size = block_size;
    p.salt = salt;
    p.tokens.resize(blocks * block_size);
    std::iota(p.tokens.begin(), p.tokens.end(), first_token);
    const HashRule rule{algorithm, false};
    for (const Digest& d :
         hash_chain(rule, *none_hash(rule, seed), std::span<const std::uint32_t>(p.tokens),
                    block_size, text_keys(KeyForm::Bare, {"", "", salt}, blocks))) {
        p.hashes.push_back(d.folded());
    }
    return p;
}

// Events; the batch around them says when, and rank 0.
inline std::string batch_of(const std::vector<std::string>& events,
                            std::uint64_t ts = 1'800'000'000) {
    Pack p;
    p.array(3).u64(ts).array(events.size());
    for (const std::string& e : events) {
        p.raw(e);
    }
    p.u64(0);
    return p.take();
}
// The map form of 0.24 and later; `shows_keys` false: the array form of 0.10.2 without extra keys.
inline std::string stored_event(const Prompt& q, bool shows_keys = true) {
    Pack p;
    const auto hashes = [&] {
        p.array(q.hashes.size());
        for (std::uint64_t h : q.hashes) {
            p.u64(h);
        }
    };
    const auto tokens = [&] {
        p.array(q.tokens.size());
        for (std::uint32_t t : q.tokens) {
            p.u64(t);
        }
    };
    if (!shows_keys) {
        p.array(7).text("BlockStored");
        hashes();
        p.nil();
        tokens();
        p.u64(q.block_size).nil().text("GPU");
        return p.take();
    }
    p.map(7).text("type").text("BlockStored").text("block_hashes");
    hashes();
    p.text("parent_block_hash").nil().text("token_ids");
    tokens();
    p.text("block_size")
        .u64(q.block_size)
        .text("medium")
        .text("GPU")
        .text("extra_keys")
        .array(q.hashes.size());
    for (std::size_t i = 0; i < q.hashes.size(); ++i) {
        if (i == 0 && !q.salt.empty()) {
            p.array(1).text(q.salt);
        } else {
            p.nil();
        }
    }
    return p.take();
}
inline std::string removed_event(std::uint64_t hash) {
    Pack p;
    p.map(3)
        .text("type")
        .text("BlockRemoved")
        .text("block_hashes")
        .array(1)
        .u64(hash)
        .text("medium")
        .text("GPU");
    return p.take();
}
inline std::string cleared_event() {
    Pack p;
    p.map(1).text("type").text("AllBlocksCleared");
    return p.take();
}

inline std::string sources(const char* replay = "\"tcp://127.0.0.1:15502\"",
                           const char* endpoint = "tcp://[::ffff:127.0.0.1]:15501") {
    return std::string(R"({"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":")") +
           endpoint + R"(","replay_endpoint":)" + replay + R"(,"topic":"kv"}})";
}
inline std::string metrics(const char* created = "1.0e+09", const char* more = "") {
    return std::string(
               "vllm:num_requests_running{engine=\"0\"} "
               "2.0\nvllm:num_requests_waiting{engine=\"0\"} 1.0\n"
               "vllm:kv_cache_usage_perc{engine=\"0\"} "
               "0.5\nvllm:prefix_cache_hits_total{engine=\"0\"} 64.0\n"
               "vllm:prompt_tokens_total{engine=\"0\"} "
               "100.0\nvllm:prompt_tokens_created{engine=\"0\"} ") +
           created + "\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"300\"} 1.0\n" +
           more;
}

inline constexpr const char* kSub = "tcp://127.0.0.1:15501";
inline constexpr const char* kReplay = "tcp://127.0.0.1:15502";
inline constexpr std::uint32_t kWatchAll =
    SLUICE_WATCH_KV | SLUICE_WATCH_LOAD | SLUICE_WATCH_MODELS;

class Flow {
public:
    explicit Flow(std::string_view config = "{}") {
        sluice_error err = make_error();
        const sluice_status status = Adapter::make(host.raw(), borrow(config), &instance_, &err);
        INFO(view(err));
        REQUIRE(status == SLUICE_OK);
        REQUIRE(instance_->activate(instance_, &err) == SLUICE_OK);
        engine = static_cast<const sluice_engine*>(instance_->query(instance_, SLUICE_EXT_ENGINE));
        REQUIRE(engine != nullptr);
        host.answer("/version", {SLUICE_OK, 200, R"({"version":"0.32.0"})", {}});
        host.answer("/metrics", {SLUICE_OK, 200, metrics(), {}});
        host.answer("/v1/models",
                    {SLUICE_OK,
                     200,
                     R"({"data":[{"id":"tiny","root":"/m","parent":null,"max_model_len":512},)"
                     R"({"id":"sql","root":"adapters/sql","parent":"tiny","max_model_len":null}]})",
                     {}});
        host.answer("/kv_event_sources", {SLUICE_OK, 200, sources(), {}});
    }
    ~Flow() {
        detach();
        instance_->deactivate(instance_);
        instance_->destroy(instance_);
        CHECK(host.leftovers().empty());
    }

    void attach(std::uint32_t watch = kWatchAll) {
        endpoint_ = {};
        endpoint_.size = sizeof endpoint_;
        endpoint_.id = 7;
        endpoint_.base_url = borrow("http://127.0.0.1:8000");
        endpoint_.address = borrow("127.0.0.1");
        endpoint_.name = borrow("127.0.0.1:8000");
        endpoint_.num_dp_ranks = 1;
        sluice_error err = make_error();
        const sluice_status status = engine->attach(instance_, &endpoint_, watch, &at, &err);
        INFO(view(err));
        REQUIRE(status == SLUICE_OK);
        host.run();
    }
    void detach() {
        if (at != nullptr) {
            engine->detach(instance_, std::exchange(at, nullptr));
        }
    }
    // Attached, connected, the first replay answered with an empty buffer.
    void attach_live() {
        attach();
        up();
        end_replay();
    }
    FakeSocket& sub(const char* address = kSub) {
        FakeSocket* s = host.socket(SLUICE_ZMQ_SUB, address);
        REQUIRE_MESSAGE(s != nullptr, "no subscription to ", address);
        return *s;
    }
    FakeSocket& dealer() {
        FakeSocket* s = host.socket(SLUICE_ZMQ_DEALER, kReplay);
        REQUIRE_MESSAGE(s != nullptr, "no replay is going on");
        return *s;
    }
    bool replaying() { return host.socket(SLUICE_ZMQ_DEALER, kReplay) != nullptr; }
    // The number the running replay was asked from.
    std::uint64_t asked_from() {
        REQUIRE(dealer().sent.size() == 1);
        REQUIRE(dealer().sent[0].size() == 2);
        CHECK(dealer().sent[0][0].empty());
        return *read_sequence(bytes(dealer().sent[0][1]));
    }
    void up() { host.link(sub(), true); }
    void down() { host.link(sub(), false); }
    void live(std::uint64_t seq, const std::string& payload) {
        host.feed(sub(), {"kv", frame(seq), payload});
    }
    void replay(std::uint64_t seq, const std::string& payload) {
        host.feed(dealer(), {"", "kv", frame(seq), payload});
    }
    void end_replay() { host.feed(dealer(), {"", "", kEnd, ""}); }

    // What the host holds by the recorded calls: hash -> copies of rank 0.
    std::map<std::uint64_t, int> held() const {
        std::map<std::uint64_t, int> out;
        for (const KvSeen& k : host.kv) {
            if (k.what == KvSeen::What::Reset) {
                out.clear();
            }
            for (const auto& e : k.events) {
                if (e.type == SLUICE_KV_CLEARED) {
                    out.clear();
                }
                for (std::uint64_t h : e.hashes) {
                    out[h] += e.type == SLUICE_KV_STORED ? 1 : -1;
                    if (out[h] <= 0) {
                        out.erase(h);
                    }
                }
            }
        }
        return out;
    }
    // The last state reported other than SAME.
    std::uint32_t state() const {
        std::uint32_t last = 0;
        for (const KvSeen& k : host.kv) {
            if (k.what == KvSeen::What::Report && k.state != SLUICE_KV_SAME) {
                last = k.state;
            }
        }
        return last;
    }
    std::uint64_t counted(std::uint32_t why) const {
        std::uint64_t n = 0;
        for (const KvSeen& k : host.kv) {
            n += k.what == KvSeen::What::Report && k.why == why ? k.count : 0;
        }
        return n;
    }
    std::size_t asked(const std::string& target) const {
        return static_cast<std::size_t>(
            std::count_if(host.requests.begin(), host.requests.end(),
                          [&](const auto& r) { return r.target == target; }));
    }
    sluice_instance* instance() noexcept { return instance_; }

    FakeHost host;
    const sluice_engine* engine = nullptr;
    sluice_attachment* at = nullptr;

private:
    sluice_instance* instance_ = nullptr;
    sluice_endpoint endpoint_{};
};

}  // namespace sluice::vllm::test
