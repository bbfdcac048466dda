#include "tests/sim/engine/run.hpp"

#include <algorithm>
#include <cstdlib>

namespace sluice::sim {

std::string sse(std::string_view json) {
    return "data: " + std::string(json) + "\n\n";
}

Run::~Run() {
    for (Choice& c : choices_) {
        c.engine->abort(*c.generation);
    }
}

// Silence until the client leaves.
void Run::stall() {
    is_broken_ = true;
    while (exchange_.wait(-1) != http::Wake::Gone) {
    }
}

bool Run::passes_start() {
    const auto ms = static_cast<int>(std::min<std::uint64_t>(fault_.number, 600'000));
    switch (fault_.kind) {
        case FaultKind::SlowHead:
            while (true) {
                const auto w = exchange_.wait(ms);
                if (w != http::Wake::Signal) {
                    return w == http::Wake::Timeout;
                }
            }
        case FaultKind::Reset:
            exchange_.reset();
            return false;
        case FaultKind::Close:
            exchange_.close_after();
            return false;
        case FaultKind::Hang:
            stall();
            return false;
        case FaultKind::Status:
            exchange_.send(shapes_.status(static_cast<int>(fault_.number)));
            return false;
        case FaultKind::Draining:
            exchange_.send(shapes_.draining());
            exchange_.close_after();
            return false;
        default:
            return true;
    }
}

void Run::add(Engine& engine, GenerateRequest request) {
    Choice c;
    c.engine = &engine;
    c.generation = engine.submit(std::move(request), [&x = exchange_] { x.wake(); });
    choices_.push_back(std::move(c));
}

std::uint32_t Run::cached_tokens() const {
    return choices_.empty() ? 0 : choices_.back().generation->cached_tokens();
}

std::uint32_t Run::cached_tokens(std::size_t choice) const {
    return choices_[choice].generation->cached_tokens();
}

bool Run::was_fetched() const {
    return !choices_.empty() && choices_.front().generation->was_fetched();
}

std::shared_ptr<const HandoffOffer> Run::offer() const {
    return choices_.empty() ? nullptr : choices_.front().generation->offer();
}

// The engine gave up on the request, or is about to end over it.
void Run::fail(bool is_fatal) {
    is_broken_ = true;
    if (exchange_.has_started()) {
        exchange_.event(sse(is_fatal ? shapes_.dead_event() : shapes_.failed_event()));
        exchange_.event(kDone);
        exchange_.close_stream();
    } else {
        exchange_.send(is_fatal ? shapes_.dead() : shapes_.failed());
    }
    if (is_fatal) {
        std::_Exit(kForeignTransferExit);
    }
}

void Run::apply_abort(Choice& c, Step& step) {
    if (fault_.kind == FaultKind::AbortAfter && c.steps >= fault_.number) {
        step.finish = Finish{FinishReason::Abort, std::monostate{}};
        c.engine->abort(*c.generation);
    }
}

bool Run::drive(const OnStep& on_step) {
    std::size_t open = choices_.size();
    while (open > 0) {
        if (exchange_.wait(-1) == http::Wake::Gone) {
            is_broken_ = true;
            return false;
        }
        for (std::size_t i = 0; i < choices_.size(); ++i) {
            Choice& c = choices_[i];
            for (Step& step : c.generation->take()) {
                if (c.has_ended) {
                    break;
                }
                ++c.steps;
                apply_abort(c, step);
                if (step.finish && step.finish->reason == FinishReason::Error) {
                    fail(step.is_fatal);
                    return false;
                }
                c.has_ended = step.finish.has_value();
                open -= c.has_ended ? 1 : 0;
                on_step(i, step);
                if (is_broken()) {
                    return false;
                }
            }
        }
    }
    return true;
}

// What happens when `count` events (or body bytes) have gone out. True: it is over.
bool Run::strikes_at(std::uint64_t count) {
    if (count < fault_.number) {
        return false;
    }
    switch (fault_.kind) {
        case FaultKind::CutAfter:
            exchange_.close_after();
            break;
        case FaultKind::ResetAfter:
            exchange_.reset();
            break;
        case FaultKind::ExitAfter:
            std::_Exit(kFaultExit);
        case FaultKind::ErrorAfter:
            exchange_.event(sse(shapes_.dead_event()));
            exchange_.event(kDone);
            exchange_.close_stream();
            exchange_.close_after();
            break;
        case FaultKind::StallAfter:
            stall();
            break;
        default:
            return false;
    }
    is_broken_ = true;
    return true;
}

bool Run::event(std::string_view data) {
    if (is_broken() || strikes_at(events_)) {
        return false;
    }
    exchange_.event(data);
    ++events_;
    return !is_broken();
}

void Run::reply(const http::Response& response) {
    switch (fault_.kind) {
        case FaultKind::ErrorAfter:
            exchange_.send(shapes_.dead());
            exchange_.close_after();
            return;
        case FaultKind::CutAfter:
        case FaultKind::ResetAfter:
        case FaultKind::StallAfter:
        case FaultKind::ExitAfter: {
            // The head promises the whole body; only the first bytes follow.
            http::Response head = response;
            head.body.clear();
            head.sends_length = false;
            head.extra.emplace_back("content-length", std::to_string(response.body.size()));
            exchange_.send(head);
            exchange_.write(std::string_view(response.body)
                                .substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(
                                               fault_.number, response.body.size()))));
            strikes_at(fault_.number);
            return;
        }
        default:
            exchange_.send(response);
    }
}

}  // namespace sluice::sim
