#include <doctest/doctest.h>

#include "tests/sim/engine/kv_content.hpp"
#include "tests/sim/vllm/pd_rules.hpp"

using namespace sluice::sim;
using namespace sluice::sim::vllm;
namespace json = sluice::sim::json;

namespace {

TransferAsk ask(const std::string& params, std::uint32_t version = 32'000) {
    PdRules rules;
    rules.connector = Connector::Nixl;
    rules.version = version;
    const auto parsed = json::parse("{\"kv_transfer_params\":" + params + "}");
    return read_transfer(rules, std::get<json::Value>(parsed));
}

const std::string kWhole =
    R"({"do_remote_prefill":true,"remote_block_ids":[[1,2]],"remote_engine_id":"e",)"
    R"("remote_request_id":"r","remote_host":"127.0.0.1","remote_port":5})";

std::string without(const std::string& name) {
    std::string out = kWhole;
    out.replace(out.find(name), name.size(), "x");
    return out;
}

}  // namespace

TEST_SUITE("sim/pd") {
    TEST_CASE("KV of the prompt itself reads as the prompt, anything else for good as another") {
        constexpr std::uint64_t kSeed = 7;
        const std::vector<TokenId> tokens{5, 6, 7, 8, 9, 10};
        Readout computed(kSeed);
        std::vector<Slot> slots;
        for (const TokenId t : tokens) {
            slots.push_back(computed.write(t));
        }
        const auto read = [&](const std::vector<Slot>& from) {
            Readout out(kSeed);
            for (const Slot& s : from) {
                out.read(s);
            }
            return out.state();
        };
        CHECK(read(slots) == computed.state());
        for (std::size_t i = 0; i < slots.size(); ++i) {
            CAPTURE(i);
            auto foreign = slots;
            foreign[i] = Slot{};
            CHECK(read(foreign) != computed.state());
            auto swapped = slots;
            std::swap(swapped[i], swapped[(i + 1) % slots.size()]);
            CHECK(read(swapped) != computed.state());
        }
        // What is computed on top of foreign KV is foreign to the prompt, too.
        Readout late(kSeed);
        late.read(Slot{1, 1});
        auto poisoned = slots;
        poisoned.back() = late.write(tokens.back());
        CHECK(read(poisoned) != computed.state());
    }

    TEST_CASE("params say what an engine does with them") {
        CHECK(ask(R"({"do_remote_decode":true,"do_remote_prefill":false})").holds_blocks);
        CHECK_FALSE(ask("{}").remote);
        const TransferAsk whole = ask(kWhole);
        REQUIRE(whole.remote);
        CHECK(whole.remote->blocks == std::vector<BlockId>{1, 2});
        CHECK_FALSE(whole.hangs);
        CHECK_FALSE(whole.kills);
        CHECK(ask(R"({"do_remote_prefill":true})").kills);
        CHECK(ask(without("remote_block_ids")).kills);
        for (const char* name :
             {"remote_engine_id", "remote_request_id", "remote_host", "remote_port"}) {
            CAPTURE(name);
            CHECK(ask(without(name)).hangs);
            CHECK_FALSE(ask(without(name)).kills);
        }
        CHECK_FALSE(ask(without("remote_request_id"), 12'000).hangs);
    }

    TEST_CASE("params within vllm_xargs are taken as well, and a text there ends the engine") {
        PdRules rules;
        rules.connector = Connector::Nixl;
        const auto within = [&](const std::string& params) {
            const auto parsed =
                json::parse("{\"vllm_xargs\":{\"kv_transfer_params\":" + params + "}}");
            return read_transfer(rules, std::get<json::Value>(parsed));
        };
        CHECK(within("\"x\"").kills);
        CHECK(within(kWhole).remote);
    }

    TEST_CASE("releases are numbers; leases follow them") {
        CHECK(pd_version("0.11.1") == 11'001);
        CHECK_FALSE(pd_version("0.11"));
        CHECK_FALSE(pd_version("0.11.x"));
        const auto lease_s = [](std::uint32_t version) {
            PdRules rules;
            rules.connector = Connector::Nixl;
            rules.version = version;
            return rules.usual_lease_us() / 1'000'000;
        };
        CHECK(lease_s(9'002) == 0);
        CHECK(lease_s(11'000) == 120);
        CHECK(lease_s(11'001) == 480);
        CHECK(lease_s(21'009) == 480);
        CHECK(lease_s(22'000) == 30);
    }
}
