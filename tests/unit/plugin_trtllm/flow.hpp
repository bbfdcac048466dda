// One adapter instance on a scripted host, before an engine that answers as told.
//
// Threads: none.
#pragma once
#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plugins/trtllm/adapter.hpp"
#include "sluice/sdk_testing.hpp"
#include "tests/unit/plugin_trtllm/vectors.hpp"

namespace sluice::trtllm::test {

using testing::FakeHost;
using testing::HttpReply;
using testing::HttpSeen;
using testing::KvSeen;

inline constexpr const char* kDrain = "/kv_cache_events";
inline constexpr std::uint32_t kWatchAll =
    SLUICE_WATCH_KV | SLUICE_WATCH_LOAD | SLUICE_WATCH_MODELS;
inline constexpr std::uint64_t kSecond = 1'000'000;

inline HttpReply ok(std::string body) {
    return {SLUICE_OK, 200, std::move(body), {}};
}
inline HttpReply code(std::uint32_t http_code, std::string body = "{}") {
    return {SLUICE_OK, http_code, std::move(body), {}};
}
inline HttpReply down() {
    return {SLUICE_E_UNAVAILABLE, 0, "", {}};
}
inline constexpr const char* kServerInfo =
    R"({"disaggregated_params":{},"max_batch_size":64,"kv_cache_hash_algo":"v1_block_key","tokens_per_block":32})";

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
        up();
        // Each test an engine of its own: abandoned drains are remembered by address.
        static int engines = 0;
        base_url_ = "http://127.0.0.1:" + std::to_string(8000 + ++engines);
    }
    ~Flow() {
        detach();
        instance_->deactivate(instance_);
        instance_->destroy(instance_);
        CHECK(host.leftovers().empty());
    }

    void up() {
        host.answer("/version", ok(R"({"version":"1.3.0"})"));
        host.answer("/server_info", ok(kServerInfo));
        host.answer("/v1/models", ok(R"({"object":"list","data":[{"id":"tiny"}]})"));
        host.answer("/prometheus/metrics", code(404));
        host.answer(kDrain, [this](const HttpSeen&) {
            if (drains.empty()) {
                return ok("[]");
            }
            HttpReply next = drains.front();
            drains.pop_front();
            return next;
        });
    }
    void all_down() {
        for (const char* target :
             {"/version", "/server_info", "/v1/models", "/prometheus/metrics", kDrain}) {
            host.answer(target, down());
        }
    }

    void attach(std::uint32_t watch = kWatchAll) {
        endpoint_ = {};
        endpoint_.size = sizeof endpoint_;
        endpoint_.id = 7;
        endpoint_.base_url = borrow(base_url_);
        endpoint_.address = borrow("127.0.0.1");
        endpoint_.name = borrow("127.0.0.1:8000");
        endpoint_.num_dp_ranks = 1;
        sluice_error err = make_error();
        const sluice_status status = engine->attach(instance_, &endpoint_, watch, &at, &err);
        INFO(view(err));
        REQUIRE(status == SLUICE_OK);
        host.run();
        host.advance(1);
    }
    void detach() {
        if (at != nullptr) {
            engine->detach(instance_, std::exchange(at, nullptr));
        }
    }
    // The next drain brings `body`.
    void drain(std::string body) {
        drains.push_back(ok(std::move(body)));
        host.advance(25'000);
        REQUIRE(drains.empty());
    }
    void events(const std::vector<std::string>& events) { drain(reply(events)); }
    void serve(std::uint32_t cached, bool is_repeat = false, std::uint32_t blocks = 2) {
        sluice_served s{};
        s.size = sizeof s;
        s.flags = is_repeat ? std::uint32_t{SLUICE_SERVED_REPEAT} : 0U;
        s.dp_rank = SLUICE_ANY;
        s.prompt_blocks = blocks;
        s.prompt_tokens = 70;
        s.cached_tokens = cached;
        engine->on_served(instance_, at, &s);
    }

    // What the host holds of a rank, by the recorded calls.
    std::set<std::uint64_t> held(std::uint32_t rank = 0) const {
        std::set<std::uint64_t> out;
        for (const KvSeen& k : host.kv) {
            const bool is_ours = k.dp_rank == rank || k.dp_rank == SLUICE_ANY;
            if (k.what == KvSeen::What::Reset && is_ours) {
                out.clear();
            }
            for (const auto& e : k.events) {
                if (!is_ours) {
                    continue;
                }
                if (e.type == SLUICE_KV_CLEARED) {
                    out.clear();
                }
                for (const std::uint64_t hash : e.hashes) {
                    if (e.type == SLUICE_KV_STORED) {
                        out.insert(hash);
                    } else {
                        out.erase(hash);
                    }
                }
            }
        }
        return out;
    }
    // The last word on the signal.
    KvSeen word() const {
        KvSeen last;
        for (const KvSeen& k : host.kv) {
            if (k.what == KvSeen::What::Report && k.state != SLUICE_KV_SAME) {
                last = k;
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
    std::deque<HttpReply> drains;
    const sluice_engine* engine = nullptr;
    sluice_attachment* at = nullptr;

private:
    sluice_instance* instance_ = nullptr;
    sluice_endpoint endpoint_{};
    std::string base_url_;
};

inline std::set<std::uint64_t> set_of(const Prompt& p) {
    return {p.hashes.begin(), p.hashes.end()};
}

}  // namespace sluice::trtllm::test
