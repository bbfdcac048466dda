#include "plugins/vllm/stream.hpp"

#include <doctest/doctest.h>

#include <string>

#include "plugins/vllm/replay.hpp"
#include "tests/unit/plugin_vllm/vectors.hpp"

using namespace sluice::vllm;
using sluice::vllm::test::bytes;

namespace {

// Writes every decision of a stream as one word.
class Recorder final : public Stream::Out {
public:
    bool apply(std::uint64_t seq, Stream::Bytes payload) override {
        const std::string text(payload.begin(), payload.end());
        if (text == "bad") {
            add("bad" + std::to_string(seq));
            return false;
        }
        add("+" + std::to_string(seq) + (text.starts_with("new") ? "n" : ""));
        if (text == "clear") {
            stream->all_cleared();
        }
        return true;
    }
    void forget(Loss why) override { add(why == Loss::Restart ? "forget" : "forget-reach"); }
    void doubt(Doubt why, std::uint64_t missing) override {
        static constexpr const char* kNames[] = {"gap", "reconnect", "malformed"};
        add(std::string("doubt-") + kNames[static_cast<int>(why)] +
            (missing != 0 ? ":" + std::to_string(missing) : ""));
    }
    void trust(Trust why) override {
        static constexpr const char* kNames[] = {"fresh", "late", "restarted", "filled"};
        add(std::string("trust-") + kNames[static_cast<int>(why)]);
    }
    void ask(std::uint64_t from) override { add("ask" + std::to_string(from)); }
    void replay_over() override { add("over"); }

    std::string take() { return std::exchange(log_, {}); }
    Stream* stream = nullptr;

private:
    void add(const std::string& word) { log_ += (log_.empty() ? "" : " ") + word; }
    std::string log_;
};

struct Bench {
    explicit Bench(bool can_replay) : stream(out, can_replay) { out.stream = &stream; }
    void live(std::uint64_t seq, std::string_view text) { stream.live(seq, bytes(text)); }
    void replayed(std::uint64_t seq, std::string_view text) { stream.replayed(seq, bytes(text)); }
    // Linked, batches 0..n-1 taken live, nothing going on.
    void settle_at(std::uint64_t n) {
        stream.link_up();
        if (stream.is_replaying()) {
            stream.round_over();
        }
        for (std::uint64_t seq = 0; seq < n; ++seq) {
            live(seq, old(seq));
        }
        out.take();
    }
    static std::string old(std::uint64_t seq) { return "old" + std::to_string(seq); }
    static std::string young(std::uint64_t seq) { return "new" + std::to_string(seq); }

    Recorder out;
    Stream stream;
};

}  // namespace

TEST_SUITE("vllm/sequence") {
    TEST_CASE("a batch is classified against the expected number and the bytes remembered") {
        struct Row {
            const char* name;
            std::uint64_t seq;
            std::uint64_t print;
            Arrival want;
        };
        for (const Row& row :
             {Row{"in order", 8, 80, Arrival::InOrder}, Row{"one lost", 9, 90, Arrival::Gap},
              Row{"the same bytes again", 7, 70, Arrival::Duplicate},
              Row{"other bytes under an old number", 7, 71, Arrival::Restart},
              Row{"engine restart", 0, 1, Arrival::Restart}}) {
            CAPTURE(row.name);
            Sequence s;
            s.skip_to(7);
            s.take(7, 70);
            CHECK(s.classify(row.seq, row.print) == row.want);
            CHECK(s.next() == 8);
        }
    }

    TEST_CASE("a number too old to be remembered is a restart") {
        Sequence s;
        for (std::uint64_t seq = 0; seq <= Sequence::kRemembered; ++seq) {
            s.take(seq, seq);
        }
        CHECK(s.classify(1, 1) == Arrival::Duplicate);
        CHECK(s.classify(0, 0) == Arrival::Restart);
        CHECK_FALSE(s.contradicts(0, 5));
    }

    TEST_CASE("a sequence frame is eight bytes, big-endian; any other length is refused") {
        CHECK(read_sequence(bytes(std::string("\0\0\0\0\0\0\1\2", 8))) == 258);
        CHECK(write_sequence(258) == std::array<std::uint8_t, 8>{0, 0, 0, 0, 0, 0, 1, 2});
        for (std::size_t size : {0, 4, 7, 9, 24}) {
            CHECK_FALSE(read_sequence(bytes(std::string(size, '\0'))).has_value());
        }
    }
}

TEST_SUITE("vllm/replay") {
    TEST_CASE("replies are told apart by their frame count and number") {
        const std::string empty, topic = "kv", seq("\0\0\0\0\0\0\0\5", 8), end(8, '\xff'),
                                 payload = "p";
        struct Row {
            const char* name;
            std::vector<std::string> frames;
            ReplayReply::Kind want;
        };
        for (const Row& row :
             {Row{"up to 0.24", {empty, seq, payload}, ReplayReply::Kind::Batch},
              Row{"from 0.26", {empty, topic, seq, payload}, ReplayReply::Kind::Batch},
              Row{"end, short", {empty, end, empty}, ReplayReply::Kind::End},
              Row{"end, long", {empty, empty, end, empty}, ReplayReply::Kind::End},
              Row{"end with a payload", {empty, end, payload}, ReplayReply::Kind::Malformed},
              Row{"no delimiter", {seq, payload}, ReplayReply::Kind::Malformed},
              Row{"delimiter not empty", {topic, seq, payload}, ReplayReply::Kind::Malformed},
              Row{"short number", {empty, "123", payload}, ReplayReply::Kind::Malformed},
              Row{"five frames", {empty, topic, topic, seq, payload}, ReplayReply::Kind::Malformed},
              Row{"none", {}, ReplayReply::Kind::Malformed}}) {
            CAPTURE(row.name);
            std::vector<sluice_bytes> frames;
            for (const std::string& f : row.frames) {
                frames.push_back(sluice::borrow_bytes(f));
            }
            const ReplayReply reply = read_replay(frames);
            CHECK(reply.kind == row.want);
            if (row.want == ReplayReply::Kind::Batch) {
                CHECK(reply.seq == 5);
                CHECK(reply.payload.size() == 1);
            }
        }
    }

    TEST_CASE("a request is an empty delimiter and the first number wanted") {
        std::array<std::uint8_t, 8> buffer{};
        const auto frames = write_replay(258, buffer);
        CHECK(frames[0].len == 0);
        CHECK(sluice::text(frames[1]) == std::string_view("\0\0\0\0\0\0\1\2", 8));
    }
}

TEST_SUITE("vllm/stream") {
    TEST_CASE("a fresh engine with an empty buffer is trusted at once") {
        Bench b(true);
        b.stream.link_up();
        CHECK(b.out.take() == "ask0");
        b.stream.round_over();
        CHECK(b.out.take() == "over trust-fresh");
        b.live(0, "old0");
        b.live(1, "old1");
        CHECK(b.out.take() == "+0 +1");
    }

    TEST_CASE("a late joiner gets what was before by replay, live batches wait their turn") {
        Bench b(true);
        b.stream.link_up();
        b.live(3, "old3");
        CHECK(b.out.take() == "ask0");
        b.replayed(0, "old0");
        b.replayed(1, "old1");
        b.replayed(2, "old2");
        CHECK(b.out.take() == "+0 +1 +2 +3");
        b.replayed(3, "old3");
        b.stream.round_over();
        CHECK(b.out.take() == "over trust-fresh");
    }

    TEST_CASE("a buffer that no longer begins at 0 leaves a late join, not a doubt") {
        Bench b(true);
        b.stream.link_up();
        b.replayed(40, "old40");
        b.replayed(41, "old41");
        b.stream.round_over();
        CHECK(b.out.take() == "ask0 +40 +41 over trust-late");
        b.live(42, "old42");
        CHECK(b.out.take() == "+42");
    }

    TEST_CASE("a live batch that a replay already brought is a duplicate, not a restart") {
        Bench b(true);
        b.stream.link_up();
        for (std::uint64_t seq = 0; seq < 5; ++seq) {
            b.replayed(seq, Bench::old(seq));
        }
        b.stream.round_over();
        b.out.take();
        b.live(3, "old3");
        b.live(4, "old4");
        b.live(5, "old5");
        CHECK(b.out.take() == "+5");
    }

    TEST_CASE("a gap is filled by replay and the doubt ends") {
        Bench b(true);
        b.settle_at(5);
        b.live(8, "old8");
        CHECK(b.out.take() == "doubt-gap ask5");
        CHECK(b.stream.is_doubtful());
        b.live(9, "old9");
        b.replayed(5, "old5");
        b.replayed(6, "old6");
        b.replayed(7, "old7");
        CHECK(b.out.take() == "+5 +6 +7 +8 +9");
        b.replayed(8, "old8");
        b.stream.round_over();
        CHECK(b.out.take() == "over trust-filled");
        CHECK_FALSE(b.stream.is_doubtful());
    }

    TEST_CASE("batches a replay lost are asked for again; a round without news ends it") {
        Bench b(true);
        b.settle_at(5);
        b.live(20, "old20");
        b.replayed(5, "old5");
        b.replayed(8, "old8");
        b.stream.round_over();
        CHECK(b.out.take() == "doubt-gap ask5 +5 ask6");
        b.replayed(7, "old7");  // 6 was never sent
        b.replayed(8, "old8");
        b.replayed(9, "old9");
        b.stream.round_over();
        CHECK(b.out.take() == "ask6");
        b.replayed(7, "old7");
        b.stream.round_over();
        CHECK(b.out.take() == "over doubt-gap:1 +7 +8 +9 doubt-gap:10 +20");
        CHECK(b.stream.is_doubtful());
        b.live(21, "old21");
        CHECK(b.out.take() == "+21");
    }

    TEST_CASE("a hole no replay fills stays in doubt until the rank is cleared") {
        Bench b(true);
        b.settle_at(3);
        b.live(4, "old4");
        b.stream.round_over();
        CHECK(b.out.take() == "doubt-gap ask3 over doubt-gap:1 +4");
        b.live(5, "old5");
        CHECK(b.out.take() == "+5");
        b.live(6, "clear");
        CHECK(b.out.take() == "+6 trust-filled");
        CHECK_FALSE(b.stream.is_doubtful());
    }

    TEST_CASE("the end marker may be lost: a silent round after some replies counts as over") {
        Bench b(true);
        b.settle_at(2);
        b.live(4, "old4");
        b.replayed(2, "old2");
        b.replayed(3, "old3");
        b.stream.round_over();
        CHECK(b.out.take() == "doubt-gap ask2 +2 +3 +4 over trust-filled");
    }

    TEST_CASE("a replay socket that never answers leaves the hole and its doubt") {
        Bench b(true);
        b.settle_at(2);
        b.live(4, "old4");
        b.stream.round_unanswered();
        CHECK(b.out.take() == "doubt-gap ask2 over doubt-gap:2 +4");
        CHECK(b.stream.is_doubtful());
    }

    TEST_CASE("a smaller number with other bytes is a restarted engine") {
        Bench b(true);
        b.settle_at(5);
        b.live(0, "new0");
        CHECK(b.out.take() == "forget +0n trust-restarted");
        b.live(1, "new1");
        CHECK(b.out.take() == "+1n");
    }

    TEST_CASE("a restart first heard at 3 is replayed from 0") {
        Bench b(true);
        b.settle_at(10);
        b.live(3, "new3");
        CHECK(b.out.take() == "forget ask0");
        b.replayed(0, "new0");
        b.replayed(1, "new1");
        b.replayed(2, "new2");
        b.stream.round_over();
        CHECK(b.out.take() == "+0n +1n +2n +3n over trust-restarted");
    }

    TEST_CASE("without replay a restart heard late is a late join") {
        Bench b(false);
        b.settle_at(10);
        b.live(3, "new3");
        CHECK(b.out.take() == "forget +3n trust-late");
    }

    TEST_CASE("after a lost connection the last batch proves the same process") {
        Bench b(true);
        b.settle_at(5);
        b.stream.link_down();
        b.stream.link_up();
        CHECK(b.out.take() == "doubt-reconnect ask4");
        b.live(6, "old6");
        CHECK(b.out.take().empty());
        b.replayed(4, "old4");
        b.replayed(5, "old5");
        b.replayed(6, "old6");
        b.stream.round_over();
        CHECK(b.out.take() == "+5 +6 over trust-filled");
    }

    TEST_CASE("after a lost connection other bytes under the last number are another process") {
        Bench b(true);
        b.settle_at(5);
        b.stream.link_down();
        b.stream.link_up();
        b.replayed(4, "new4");
        CHECK(b.out.take() == "doubt-reconnect ask4 forget ask0");
        for (std::uint64_t seq = 0; seq < 6; ++seq) {
            b.replayed(seq, Bench::young(seq));
        }
        b.stream.round_over();
        CHECK(b.out.take() == "+0n +1n +2n +3n +4n +5n over trust-restarted");
    }

    TEST_CASE("after a lost connection a shorter history is another process") {
        Bench b(true);
        b.settle_at(5);
        b.stream.link_down();
        b.stream.link_up();
        b.live(2, "new2");
        b.stream.round_over();
        CHECK(b.out.take() == "doubt-reconnect ask4 forget ask0");
        b.replayed(0, "new0");
        b.replayed(1, "new1");
        b.replayed(2, "new2");
        b.stream.round_over();
        CHECK(b.out.take() == "+0n +1n +2n over trust-restarted");
    }

    TEST_CASE("a buffer that begins after the last batch no longer reaches: begin there") {
        Bench b(true);
        b.settle_at(5);
        b.stream.link_down();
        b.stream.link_up();
        b.replayed(9, "old9");
        b.replayed(10, "old10");
        b.stream.round_over();
        CHECK(b.out.take() == "doubt-reconnect ask4 forget-reach +9 +10 over trust-late");
    }

    TEST_CASE("without replay a reconnect stays in doubt; blocks stored after it are applied") {
        Bench b(false);
        b.settle_at(5);
        b.stream.link_down();
        b.stream.link_up();
        b.live(5, "old5");
        b.live(6, "old6");
        CHECK(b.out.take() == "doubt-reconnect +5 +6");
        CHECK(b.stream.is_doubtful());
    }

    TEST_CASE("an unanswered proof judges the held batches by their numbers") {
        Bench b(true);
        b.settle_at(5);
        b.stream.link_down();
        b.stream.link_up();
        b.live(5, "old5");
        b.stream.round_unanswered();
        CHECK(b.out.take() == "doubt-reconnect ask4 over +5");
        CHECK(b.stream.is_doubtful());
    }

    TEST_CASE("a batch that does not decode is a hole, and only where blocks are known") {
        Bench b(true);
        b.settle_at(0);
        b.live(0, "bad");
        CHECK(b.out.take() == "bad0");
        b.live(1, "old1");
        b.live(2, "bad");
        b.live(3, "old3");
        CHECK(b.out.take() == "+1 bad2 doubt-malformed:1 +3");
    }

    TEST_CASE(
        "an engine known to be another one is begun again, without replay from the next batch") {
        Bench with(true);
        with.settle_at(5);
        with.stream.engine_changed();
        CHECK(with.out.take() == "forget ask0");
        Bench without(false);
        without.settle_at(5);
        without.stream.engine_changed();
        without.live(0, "new0");
        CHECK(without.out.take() == "forget trust-restarted +0n");
    }

    TEST_CASE("a restart in the middle of a replay starts the replay over") {
        Bench b(true);
        b.settle_at(5);
        b.live(8, "old8");
        b.out.take();
        b.live(0, "new0");
        CHECK(b.out.take() == "forget +0n ask1");
        b.replayed(1, "new1");
        b.stream.round_over();
        CHECK(b.out.take() == "+1n over trust-restarted");
    }

    TEST_CASE("what is held has a bound; beyond it the hole counts as unfillable") {
        Bench b(true);
        b.settle_at(2);
        const std::string big(8U << 20U, 'x');
        b.live(3, big);
        for (std::uint64_t seq = 4; seq < 40; ++seq) {
            b.live(seq, big);
            CHECK(b.stream.held_bytes() <= Stream::kMaxHeldBytes);
        }
        CHECK(b.out.take().find("doubt-gap:1") != std::string::npos);
        CHECK(b.stream.next() == 40);
    }

    TEST_CASE("a link that drops during a replay ends it and forgets what was held") {
        Bench b(true);
        b.settle_at(2);
        b.live(4, "old4");
        b.stream.link_down();
        CHECK(b.out.take() == "doubt-gap ask2 over");
        CHECK(b.stream.held_bytes() == 0);
        b.replayed(2, "old2");
        CHECK(b.out.take().empty());
    }
}
