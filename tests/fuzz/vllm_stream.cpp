// Any order of live and replayed batches, links going up and down, rounds ending: whatever comes,
// batches are applied in ascending order between two forgets, and what is held stays bounded.
#include <cstdlib>

#include "plugins/vllm/stream.hpp"

namespace {

using namespace sluice::vllm;

class Checker final : public Stream::Out {
public:
    bool apply(std::uint64_t seq, Stream::Bytes payload) override {
        if (has_last_ && seq <= last_) {
            std::abort();
        }
        has_last_ = true;
        last_ = seq;
        return payload.empty() || payload[0] % 16 != 0;
    }
    void forget(Loss) override { has_last_ = false; }
    void doubt(Doubt, std::uint64_t) override {}
    void trust(Trust) override {}
    void ask(std::uint64_t) override { asking = true; }
    void replay_over() override { asking = false; }
    bool asking = false;

private:
    bool has_last_ = false;
    std::uint64_t last_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    Checker out;
    Stream stream(out, data[0] % 2 == 0);
    for (std::size_t i = 1; i + 2 < size; i += 3) {
        const std::uint64_t seq = data[i + 1] % 32;
        const Stream::Bytes payload(data + i + 2, 1);
        switch (data[i] % 8) {
            case 0:
                stream.link_up();
                break;
            case 1:
                stream.link_down();
                break;
            case 2:
            case 3:
                stream.live(seq, payload);
                break;
            case 4:
            case 5:
                stream.replayed(seq, payload);
                break;
            case 6:
                data[i + 1] % 4 == 0 ? stream.round_unanswered() : stream.round_over();
                break;
            case 7:
                data[i + 1] % 4 == 0 ? stream.engine_changed() : stream.all_cleared();
                break;
        }
        if (stream.held_bytes() > Stream::kMaxHeldBytes || out.asking != stream.is_replaying()) {
            std::abort();
        }
    }
    return 0;
}
