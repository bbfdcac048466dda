#include "core/flow/republisher.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/bytes.hpp"
#include "tests/unit/flow/event_reader.hpp"

using namespace sluice;
using namespace sluice::flow;
using namespace sluice::flow::test;

namespace {

class Held {
public:
    // Port 0 takes one from the system.
    explicit Held(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        at.sin_port = htons(port);
        socklen_t size = sizeof at;
        auto* const name = reinterpret_cast<sockaddr*>(&at);
        if (::bind(fd_, name, sizeof at) == 0 && ::getsockname(fd_, name, &size) == 0) {
            port_ = ntohs(at.sin_port);
        }
    }
    ~Held() { ::close(fd_); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    std::uint16_t port() const noexcept { return port_; }  // 0: it was taken

private:
    int fd_;
    std::uint16_t port_ = 0;
};

// Two ports in a row that were free a moment ago.
std::uint16_t free_pair() {
    for (int i = 0; i < 1000; ++i) {
        const Held first(0);
        if (first.port() != 0 && first.port() < 65535 &&
            Held(static_cast<std::uint16_t>(first.port() + 1)).port() != 0) {
            return first.port();
        }
    }
    return 0;
}

rules::Rule rule_at(std::uint16_t port, std::vector<std::uint32_t> endpoints = {0}) {
    rules::Rule out;
    out.number = 1;
    out.kv.exact_mode = 3;
    out.effective = R"({"kvRepublish":"tcp://127.0.0.1:)" + std::to_string(port) + R"("})";
    for (const std::uint32_t idx : endpoints) {
        rules::EndpointSpec spec;
        spec.id = 100 + idx;
        spec.ep_idx = idx;
        spec.ip = "10.0.0." + std::to_string(idx + 1);
        spec.port = 8000;
        out.endpoints.push_back(spec);
    }
    return out;
}

void put_in_force(Republisher& book, const rules::Rule& rule) {
    std::vector<rules::Warning> warnings;
    const auto refusal = book.prepare(rule, warnings);
    INFO((refusal ? refusal->message : ""));
    REQUIRE_FALSE(refusal);
    book.apply(rule);
}

// The whole answer to a replay from `from`, the end marker included.
std::vector<std::uint64_t> replay(zmq::context_t& context, const std::string& address,
                                  std::uint64_t from) {
    zmq::socket_t ask(context, zmq::socket_type::dealer);
    ask.set(zmq::sockopt::linger, 0);
    ask.set(zmq::sockopt::rcvhwm, 0);
    ask.set(zmq::sockopt::rcvtimeo, 10'000);
    ask.connect(address);
    zmq::message_t seq(8);
    store_be64(from, {static_cast<std::uint8_t*>(seq.data()), 8});
    ask.send(zmq::message_t(), zmq::send_flags::sndmore);
    ask.send(seq, zmq::send_flags::none);
    std::vector<std::uint64_t> out;
    while (out.empty() || out.back() != UINT64_MAX) {
        std::vector<zmq::message_t> frames;
        bool has_more = true;
        while (has_more) {
            zmq::message_t frame;
            REQUIRE(ask.recv(frame));
            has_more = frame.more();
            frames.push_back(std::move(frame));
        }
        REQUIRE(frames.size() == 4);
        CHECK(frames[0].size() == 0);
        CHECK(frames[1].size() == 0);
        REQUIRE(frames[2].size() == 8);
        out.push_back(load_be64({static_cast<const std::uint8_t*>(frames[2].data()), 8}));
    }
    return out;
}

}  // namespace

TEST_SUITE("flow/republisher") {
    TEST_CASE("every rank of every endpoint has a port of its own, and its replay, too") {
        for (const std::uint32_t ranks : {1U, 3U, 8U}) {
            std::set<std::uint32_t> ports;
            for (std::uint32_t i = 0; i < 5; ++i) {
                for (std::uint32_t r = 0; r < ranks; ++r) {
                    const RepublishPorts at = republish_ports(5600, ranks, i, r);
                    CHECK(at.pub == 5600 + 2 * ranks * i + r);
                    CHECK(at.replay == at.pub + ranks);
                    ports.insert({at.pub, at.replay});
                }
            }
            CHECK(ports.size() == std::size_t{10} * ranks);
        }
        CHECK(republish_ports(65535, 8, UINT32_MAX, 7).replay > 65535);
    }

    TEST_CASE("ports past the last one are refused, whatever number the endpoint has") {
        Republisher book;
        std::vector<rules::Warning> warnings;
        const auto refusal = book.prepare(rule_at(5600, {0, 40'000}), warnings);
        REQUIRE(refusal);
        CHECK(refusal->code == "kv_republish_range");
        CHECK(refusal->status == 400);
    }

    TEST_CASE("what is taken is refused, and a rule that is given up frees what it had") {
        zmq::context_t context;
        const std::uint16_t port = free_pair();
        Republisher book;
        std::vector<rules::Warning> warnings;
        REQUIRE_FALSE(book.prepare(rule_at(port), warnings));
        rules::Rule other = rule_at(port);
        other.number = 2;
        const auto refusal = book.prepare(other, warnings);
        REQUIRE(refusal);
        CHECK(refusal->code == "republish_unavailable");
        CHECK(refusal->status == 409);
        CHECK(book.feed(1, 100) == nullptr);
        CHECK(book.sources_json(1, 100) == "{}");
        book.abandon(rule_at(port));
    }

    TEST_CASE("who asks gets all that is kept, then the end") {
        zmq::context_t context;
        const std::uint16_t port = free_pair();
        Republisher book;
        put_in_force(book, rule_at(port));
        const EventFeedPtr feed = book.feed(1, 100);
        REQUIRE(feed);
        const std::string address = "tcp://127.0.0.1:" + std::to_string(port + 1);
        CHECK(replay(context, address, 0) == std::vector<std::uint64_t>{UINT64_MAX});
        const EventLogPtr log = feed->log(0);
        for (int i = 0; i < 3000; ++i) {
            log->append("payload");
        }
        // More than the mark of a socket, without a hole.
        const auto all = replay(context, address, 0);
        REQUIRE(all.size() == 3001);
        CHECK(all[2999] == 2999);
        CHECK(replay(context, address, 2998) == std::vector<std::uint64_t>{2998, 2999, UINT64_MAX});
        CHECK(replay(context, address, 5000) == std::vector<std::uint64_t>{UINT64_MAX});
    }

    TEST_CASE("an edit keeps feeds and numbers; an endpoint that goes takes its ports along") {
        zmq::context_t context;
        const std::uint16_t port = free_pair();
        Republisher book;
        put_in_force(book, rule_at(port));
        const EventFeedPtr feed = book.feed(1, 100);
        feed->log(0)->append("a");
        rules::Rule renamed = rule_at(port);
        renamed.name = "renamed";
        put_in_force(book, renamed);
        CHECK(book.feed(1, 100) == feed);
        const std::uint16_t elsewhere = free_pair();
        put_in_force(book, rule_at(elsewhere));
        CHECK(book.feed(1, 100) == feed);
        CHECK(book.sources_json(1, 100).find(std::to_string(elsewhere + 1)) != std::string::npos);
        CHECK(replay(context, "tcp://127.0.0.1:" + std::to_string(elsewhere + 1), 0) ==
              std::vector<std::uint64_t>{0, UINT64_MAX});
        rules::Rule off = rule_at(elsewhere);
        off.effective = "{}";
        put_in_force(book, off);
        CHECK(book.feed(1, 100) == nullptr);
        CHECK(book.sources_json(1, 100) == "{}");
        book.retain({});
    }

    TEST_CASE("a rank beyond those the rule names gets ports from the system") {
        zmq::context_t context;
        const std::uint16_t port = free_pair();
        Republisher book;
        put_in_force(book, rule_at(port));
        std::vector<sluice_kv_event> none;
        book.feed(1, 100)->apply(batch_of(none, 5));
        const std::string sources = book.sources_json(1, 100);
        CHECK(sources.find("\"0\"") != std::string::npos);
        CHECK(sources.find("\"5\"") != std::string::npos);
        CHECK(book.unbound().empty());
    }

    TEST_CASE("counts are by rule and endpoint, never by rank or address") {
        zmq::context_t context;
        Republisher book;
        put_in_force(book, rule_at(free_pair()));
        book.feed(1, 100)->log(0)->append("a");
        std::vector<metrics::Family> families;
        book.scrape(families);
        REQUIRE(families.size() == 4);
        for (const metrics::Family& family : families) {
            for (const metrics::Sample& sample : family.samples) {
                for (const auto& [name, value] : sample.labels) {
                    const bool is_bounded =
                        name == "service" || name == "ep_idx" || name == "reason";
                    CHECK(is_bounded);
                }
            }
        }
    }
}
