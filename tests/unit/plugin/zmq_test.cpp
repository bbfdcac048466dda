#include <thread>
#include <zmq.hpp>

#include "core/plugin/zmq_link.hpp"
#include "core/plugin/zmq_thread.hpp"
#include "tests/unit/plugin/support.hpp"

#ifdef __SANITIZE_THREAD__
// libzmq is not built with the sanitizer, which therefore does not see how its pipes hand memory
// from one thread to the other. What our own code does with the memory is still watched.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
    return "called_from_lib:libzmq.so\n";
}
#endif

TEST_SUITE_BEGIN("plugin/zmq");

using namespace sluice::plugin;
using testing::Fake;
using testing::Running;

namespace {

// The engine's side of a connection.
struct Peer {
    explicit Peer(zmq::socket_type type) : socket(context, type) {
        socket.set(zmq::sockopt::linger, 0);
        socket.set(zmq::sockopt::rcvtimeo, 10'000);
        socket.set(zmq::sockopt::sndhwm, 0);
        if (type == zmq::socket_type::router) {
            socket.set(zmq::sockopt::router_mandatory, true);
        }
        socket.bind("tcp://127.0.0.1:*");
        address = socket.get(zmq::sockopt::last_endpoint);
    }
    // XPUB: waits until somebody has subscribed.
    void wait_for_subscriber() {
        zmq::message_t subscription;
        REQUIRE(socket.recv(subscription));
    }
    void publish(const std::string& topic, const std::string& body) {
        socket.send(zmq::buffer(topic), zmq::send_flags::sndmore);
        socket.send(zmq::buffer(body), zmq::send_flags::none);
    }
    zmq::context_t context{1};
    zmq::socket_t socket;
    std::string address;
};

// Everything a socket's handler was told, as words.
class Heard {
public:
    void add(std::string word) {
        const std::lock_guard lock(mu_);
        words_.push_back(std::move(word));
        changed_.notify_all();
    }
    // Waits until `count` words are there; then all of them.
    std::vector<std::string> wait_for(std::size_t count) {
        std::unique_lock lock(mu_);
        CHECK(changed_.wait_for(lock, testing::kSoon, [&] { return words_.size() >= count; }));
        return words_;
    }

    static void on_message(void* user, const sluice_bytes* frames, std::uint32_t count) {
        std::string word;
        for (std::uint32_t i = 0; i < count; ++i) {
            word += i > 0 ? "|" : "";
            word.append(reinterpret_cast<const char*>(frames[i].ptr), frames[i].len);
        }
        static_cast<Heard*>(user)->add(std::move(word));
    }
    static void on_link(void* user, int connected) {
        static_cast<Heard*>(user)->add(connected != 0 ? "up" : "down");
    }

private:
    std::mutex mu_;
    std::condition_variable changed_;
    std::vector<std::string> words_;  // guarded by mu_
};

struct Setup {
    explicit Setup(RuntimeOptions options = {}) : running(std::move(options)) {
        fake.has_engine = true;
        engine = running.active<EngineInstance>(fake);
    }
    ~Setup() { close(); }

    sluice_status open(std::uint32_t kind, const std::string& address, const char* topic = "",
                       std::uint64_t max_bytes = 0) {
        sluice_status status = SLUICE_OK;
        running.on_event([&] {
            sluice_zmq_options options{};
            options.size = sizeof options;
            options.kind = kind;
            options.address = borrow(address);
            options.topic = borrow(topic);
            options.max_message_bytes = max_bytes;
            sluice_zmq_handler handler{sizeof(sluice_zmq_handler), 0, &heard, &Heard::on_message,
                                       &Heard::on_link};
            status = api().open(fake.host, &options, &handler, &socket, nullptr);
        });
        return status;
    }
    sluice_status send(const std::vector<std::string>& frames) {
        sluice_status status = SLUICE_OK;
        std::vector<sluice_bytes> parts;
        for (const auto& frame : frames) {
            parts.push_back({reinterpret_cast<const std::uint8_t*>(frame.data()), frame.size()});
        }
        running.on_event([&] {
            status = api().send(fake.host, socket, parts.data(),
                                static_cast<std::uint32_t>(parts.size()));
        });
        return status;
    }
    void close() {
        if (socket == nullptr) {
            return;
        }
        running.on_event([&] { api().close(fake.host, std::exchange(socket, nullptr)); });
    }
    const sluice_zmq_api& api() { return fake.service<sluice_zmq_api>(SLUICE_SVC_ZMQ); }

    Heard heard;
    Fake fake;
    Running running;
    std::shared_ptr<EngineInstance> engine;
    sluice_zmq_socket* socket = nullptr;
};

}  // namespace

TEST_CASE("a subscriber hears the link come up, then messages of its topic in order") {
    Peer engine(zmq::socket_type::xpub);
    Setup s;
    REQUIRE(s.open(SLUICE_ZMQ_SUB, engine.address, "kv") == SLUICE_OK);
    engine.wait_for_subscriber();
    engine.publish("kv", "one");
    engine.publish("other", "not ours");
    engine.publish("kv", "two");
    CHECK(s.heard.wait_for(3) == std::vector<std::string>{"up", "kv|one", "kv|two"});
    CHECK(s.engine->defects() == 0);
}

TEST_CASE("a peer that goes away is a link that goes down") {
    auto engine = std::make_unique<Peer>(zmq::socket_type::xpub);
    Setup s;
    REQUIRE(s.open(SLUICE_ZMQ_SUB, engine->address) == SLUICE_OK);
    engine->wait_for_subscriber();
    engine->publish("t", "last");
    (void)s.heard.wait_for(2);
    engine.reset();
    CHECK(s.heard.wait_for(3) == std::vector<std::string>{"up", "t|last", "down"});
}

TEST_CASE("a dealer's frames go out as given and answers come back") {
    Peer engine(zmq::socket_type::router);
    Setup s;
    REQUIRE(s.open(SLUICE_ZMQ_DEALER, engine.address) == SLUICE_OK);
    CHECK(s.send({"", "12345678"}) == SLUICE_OK);
    std::vector<zmq::message_t> question(3);
    for (auto& frame : question) {
        REQUIRE(engine.socket.recv(frame));
    }
    CHECK(question[1].size() == 0);
    CHECK(question[2].to_string() == "12345678");
    engine.socket.send(question[0], zmq::send_flags::sndmore);
    engine.socket.send(zmq::buffer(std::string("")), zmq::send_flags::sndmore);
    engine.socket.send(zmq::buffer(std::string("answer")), zmq::send_flags::none);
    CHECK(s.heard.wait_for(2) == std::vector<std::string>{"up", "|answer"});
}

TEST_CASE("sending to a peer that is not there fills a bounded queue") {
    Setup s;
    REQUIRE(s.open(SLUICE_ZMQ_DEALER, "tcp://127.0.0.1:1") == SLUICE_OK);
    sluice_status last = SLUICE_OK;
    std::size_t taken = 0;
    s.running.on_event([&] {
        const sluice_bytes frame{reinterpret_cast<const std::uint8_t*>("q"), 1};
        while (last == SLUICE_OK && taken < 100'000) {
            last = s.api().send(s.fake.host, s.socket, &frame, 1);
            taken += last == SLUICE_OK ? 1 : 0;
        }
    });
    CHECK(last == SLUICE_AGAIN);
    CHECK(taken >= ZmqLink::kMaxOutMessages);
    CHECK(taken <= ZmqLink::kMaxOutMessages + 1);  // one may be in the ZMQ thread's hands
}

TEST_CASE("when the plugin falls behind, messages are dropped and the hole is marked once") {
    RuntimeOptions options;
    options.zmq_queue_bytes = 4000;
    Peer engine(zmq::socket_type::xpub);
    Setup s(options);
    REQUIRE(s.open(SLUICE_ZMQ_SUB, engine.address, "", 1500) == SLUICE_OK);
    engine.wait_for_subscriber();
    engine.publish("t", "first");
    (void)s.heard.wait_for(2);

    // The event thread is held while far more arrives than the queue may hold.
    std::promise<void> go;
    auto gate = go.get_future().share();
    testing::Signal held;
    s.running.runtime.events().post([gate, &held] {
        held.set();
        gate.wait();
    });
    REQUIRE(held.wait());
    const auto dropped = [&] {
        for (const auto& family : sluice::metrics::registry().collect()) {
            if (family.name == "sluice_plugins_zmq_dropped_total" && !family.samples.empty()) {
                return family.samples[0].value;
            }
        }
        return 0.0;
    };
    const double before = dropped();
    for (int i = 0; i < 20; ++i) {
        engine.publish("t", std::string(1000, 'x'));
    }
    // Nobody tells when the last one was dropped; the count does.
    const auto until = std::chrono::steady_clock::now() + testing::kSoon;
    while (dropped() < before + 17 && std::chrono::steady_clock::now() < until) {
        std::this_thread::yield();
    }
    CHECK(dropped() == before + 17);
    go.set_value();
    s.running.on_event([] {});
    engine.publish("t", "after");
    auto words = s.heard.wait_for(8);
    for (auto& word : words) {
        word = word.substr(0, 7);
    }
    CHECK(words == std::vector<std::string>{"up", "t|first", "t|xxxxx", "t|xxxxx", "t|xxxxx",
                                            "down", "up", "t|after"});
}

TEST_CASE("messages longer than asked for never reach the plugin") {
    Peer engine(zmq::socket_type::xpub);
    Setup s;
    REQUIRE(s.open(SLUICE_ZMQ_SUB, engine.address, "", 100) == SLUICE_OK);
    engine.wait_for_subscriber();
    // Frames that are each within the limit, and too much together.
    engine.socket.send(zmq::buffer(std::string(60, 'a')), zmq::send_flags::sndmore);
    engine.socket.send(zmq::buffer(std::string(60, 'b')), zmq::send_flags::none);
    engine.publish("t", "fine");
    CHECK(s.heard.wait_for(4) == std::vector<std::string>{"up", "down", "up", "t|fine"});
}

TEST_CASE("after close the handler is not called any more, from inside a message too") {
    Peer engine(zmq::socket_type::xpub);
    Setup s;
    struct Closing {
        Setup* setup = nullptr;
        int messages = 0;
    } closing;
    closing.setup = &s;
    s.running.on_event([&] {
        sluice_zmq_options options{};
        options.size = sizeof options;
        options.kind = SLUICE_ZMQ_SUB;
        options.address = borrow(engine.address);
        sluice_zmq_handler handler{
            sizeof(sluice_zmq_handler), 0, &closing,
            [](void* user, const sluice_bytes*, std::uint32_t) {
                auto& c = *static_cast<Closing*>(user);
                ++c.messages;
                c.setup->api().close(c.setup->fake.host, std::exchange(c.setup->socket, nullptr));
                c.setup->heard.add("closed");
            },
            nullptr};
        CHECK(s.api().open(s.fake.host, &options, &handler, &s.socket, nullptr) == SLUICE_OK);
    });
    engine.wait_for_subscriber();
    for (int i = 0; i < 50; ++i) {
        engine.publish("t", "x");
    }
    CHECK(s.heard.wait_for(1) == std::vector<std::string>{"closed"});
    s.running.on_event([] {});
    CHECK(closing.messages == 1);
}

TEST_CASE("an unusable socket is refused at once") {
    Setup s;
    for (const char* address : {"", "inproc://x", "ipc:///x", "tcp://", "tcp://127.0.0.1",
                                "tcp://127.0.0.1:0", "tcp://127.0.0.1:99999", "tcp://h:12x"}) {
        CAPTURE(address);
        CHECK(s.open(SLUICE_ZMQ_SUB, address) == SLUICE_E_INVALID);
    }
    CHECK(s.open(3, "tcp://127.0.0.1:5557") == SLUICE_E_INVALID);
    CHECK(s.open(SLUICE_ZMQ_SUB, "tcp://127.0.0.1:1") == SLUICE_OK);
    CHECK(s.send({"a subscriber does not send"}) == SLUICE_E_INVALID);
}

TEST_CASE("sockets have a bound and those left open end with the instance") {
    RuntimeOptions options;
    options.max_sockets = 2;
    Setup s(options);
    CHECK(s.open(SLUICE_ZMQ_SUB, "tcp://127.0.0.1:1") == SLUICE_OK);
    CHECK(s.open(SLUICE_ZMQ_SUB, "tcp://127.0.0.1:1") == SLUICE_OK);
    CHECK(s.open(SLUICE_ZMQ_SUB, "tcp://127.0.0.1:1") == SLUICE_E_LIMIT);
    const auto host = s.engine->host().shared_from_this();
    s.engine.reset();
    s.running.runtime.settle();
    CHECK(host->defects() == 1);
    CHECK(s.fake.destroyed == 1);
    s.socket = nullptr;
}

TEST_SUITE_END();
