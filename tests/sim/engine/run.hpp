// One request's generations, from submission to the last token, with the client watched and the
// asked-for fault applied.
//
// Owns:    the generations; whatever has not ended is aborted when it goes.
// Threads: the connection's.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/engine/engine.hpp"
#include "tests/sim/engine/fault.hpp"
#include "tests/sim/support/exchange.hpp"

namespace sluice::sim {

// How an engine words the failures it is told to have.
struct FailureShapes {
    http::Response (*status)(int status) = nullptr;
    http::Response (*draining)() = nullptr;
    http::Response (*dead)() = nullptr;
    std::string (*dead_event)() = nullptr;  // JSON of the event that ends a stream
    http::Response (*failed)() = nullptr;   // a request the engine gave up, and in a stream
    std::string (*failed_event)() = nullptr;
};

class Run {
public:
    Run(http::Exchange& exchange, const Fault& fault, const FailureShapes& shapes)
        : exchange_(exchange), fault_(fault), shapes_(shapes) {}
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    // Faults that strike before anything is generated. False: the reply, if any, was made.
    bool passes_start();

    void add(Engine& engine, GenerateRequest request);
    std::size_t size() const noexcept { return choices_.size(); }
    // Of the last choice, as the engine reports it.
    std::uint32_t cached_tokens() const;
    std::uint32_t cached_tokens(std::size_t choice) const;
    // Whether a prompt came from another engine.
    bool was_fetched() const;
    // What the first choice left for another engine; null: nothing.
    std::shared_ptr<const HandoffOffer> offer() const;

    using OnStep = std::function<void(std::size_t choice, Step& step)>;
    // Calls back for every step of every choice until all have ended; false when the client left
    // or a fault took over.
    bool drive(const OnStep& on_step);

    // The stream's voice: applies the faults that count events. False when the stream is over.
    bool event(std::string_view data);
    // A plain reply: applies the faults that count bytes.
    void reply(const http::Response& response);
    bool is_broken() const noexcept { return is_broken_ || exchange_.is_gone(); }

private:
    struct Choice {
        Engine* engine = nullptr;
        std::shared_ptr<Generation> generation;
        std::uint64_t steps = 0;
        bool has_ended = false;
    };
    void stall();
    void fail(bool is_fatal);
    void apply_abort(Choice& c, Step& step);
    bool strikes_at(std::uint64_t count);

    http::Exchange& exchange_;
    Fault fault_;
    const FailureShapes& shapes_;
    std::vector<Choice> choices_;
    std::uint64_t events_ = 0;
    bool is_broken_ = false;
};

// data: <json>, with the empty line.
std::string sse(std::string_view json);
inline constexpr std::string_view kDone = "data: [DONE]\n\n";

}  // namespace sluice::sim
