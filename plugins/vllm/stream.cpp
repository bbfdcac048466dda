#include "plugins/vllm/stream.hpp"

namespace sluice::vllm {

void Stream::link_up() {
    const bool again = linked_before_;
    linked_before_ = linked_ = true;
    if (again && has_blocks_) {
        raise(Doubt::Reconnect, 0);
    }
    if (can_replay_) {
        begin(sequence_.next() == 0 ? Phase::FromZero : Phase::Proving);
    } else if (doubtful_) {
        has_hole_ = true;  // nothing but a restart or a clear can end it
    } else {
        out_.trust(next_trust_);
    }
}

void Stream::link_down() {
    linked_ = false;
    if (is_replaying()) {
        phase_ = Phase::Live;
        held_.clear();
        held_bytes_ = 0;
        out_.replay_over();
    }
}

void Stream::live(std::uint64_t seq, Bytes payload) {
    if (phase_ == Phase::Proving) {
        hold(seq, payload);  // whose numbers these are is not known yet
        return;
    }
    switch (sequence_.classify(seq, fingerprint(payload))) {
        case Arrival::InOrder:
            if (phase_ == Phase::FromZero) {
                phase_ = Phase::Filling;
            }
            take(seq, payload);
            drain();
            return;
        case Arrival::Duplicate:
            return;
        case Arrival::Restart:
            restart(seq, payload);
            return;
        case Arrival::Gap:
            break;
    }
    if (is_replaying()) {
        hold(seq, payload);
        return;
    }
    if (can_replay_) {
        raise(Doubt::Gap, 0);
        hold(seq, payload);
        begin(sequence_.next() == 0 ? Phase::FromZero : Phase::Filling);
        return;
    }
    hold(seq, payload);
    give_up();
}

void Stream::replayed(std::uint64_t seq, Bytes payload) {
    const std::uint64_t print = fingerprint(payload);
    if (phase_ == Phase::Live) {
        return;
    }
    if (phase_ == Phase::Proving) {
        const std::uint64_t last = sequence_.next() - 1;
        if (seq < last) {
            return;
        }
        progressed_ = true;
        if (seq == last && sequence_.knows(seq, print)) {
            phase_ = Phase::Filling;
            drain();
            return;
        }
        if (seq == last) {
            restart(seq, payload);
            return;
        }
        // The buffer begins after our last batch: what happened between cannot be known.
        out_.forget(Loss::OutOfReach);
        sequence_.restart();
        sequence_.skip_to(seq);
        has_blocks_ = doubtful_ = has_hole_ = false;
        next_trust_ = Trust::LateJoin;
        phase_ = Phase::Filling;
    }
    if (phase_ == Phase::FromZero && seq > sequence_.next()) {
        sequence_.skip_to(seq);
        next_trust_ = Trust::LateJoin;
    }
    if (seq == sequence_.next()) {
        progressed_ = true;
        phase_ = Phase::Filling;
        take(seq, payload);
        drain();
    } else if (seq > sequence_.next()) {
        progressed_ = progressed_ || !held_.contains(seq);
        hold(seq, payload);
    } else if (sequence_.contradicts(seq, print)) {
        restart(seq, payload);
    }
}

void Stream::round_over() {
    if (phase_ == Phase::Live) {
        return;
    }
    if (phase_ == Phase::Proving) {
        // Asked for our last batch and nothing at or after it is there: a younger process.
        out_.forget(Loss::Restart);
        sequence_.restart();
        has_blocks_ = doubtful_ = has_hole_ = false;
        next_trust_ = Trust::Restarted;
        begin(Phase::FromZero);
        return;
    }
    if (held_.empty()) {
        settle();
    } else if (progressed_ && ++rounds_ < kMaxRounds) {
        progressed_ = false;
        out_.ask(sequence_.next());
    } else {
        give_up();
    }
}

void Stream::round_unanswered() {
    if (phase_ == Phase::Live) {
        return;
    }
    if (phase_ != Phase::Proving) {
        if (phase_ == Phase::FromZero) {
            next_trust_ = Trust::LateJoin;
        }
        give_up();
        return;
    }
    // Nothing proven: the doubt stays, and held batches are judged by their numbers alone.
    auto held = std::move(held_);
    held_.clear();
    held_bytes_ = 0;
    phase_ = Phase::Live;
    has_hole_ = has_blocks_;
    out_.replay_over();
    const bool could_replay = can_replay_;
    can_replay_ = false;  // it just did not answer: no new request for each of them
    for (const auto& [seq, payload] : held) {
        live(seq, payload);
    }
    can_replay_ = could_replay;
}

void Stream::engine_changed() {
    out_.forget(Loss::Restart);
    sequence_.restart();
    held_.clear();
    held_bytes_ = 0;
    has_blocks_ = doubtful_ = has_hole_ = false;
    next_trust_ = Trust::Restarted;
    if (can_replay_ && linked_) {
        begin(Phase::FromZero);
    } else if (linked_) {
        settle();
    }
}

void Stream::take(std::uint64_t seq, Bytes payload) {
    sequence_.take(seq, fingerprint(payload));
    if (out_.apply(seq, payload)) {
        has_blocks_ = true;
    } else {
        has_hole_ = has_blocks_;
        raise(Doubt::Malformed, 1);
    }
    if (linked_ && !is_replaying() && doubtful_ && !has_hole_) {
        settle();  // this very batch cleared the rank
    }
}

void Stream::hold(std::uint64_t seq, Bytes payload) {
    if (held_.size() >= kMaxHeld || held_bytes_ + payload.size() > kMaxHeldBytes) {
        if (phase_ == Phase::Proving) {
            round_unanswered();
            live(seq, payload);
            return;
        }
        give_up();
        live(seq, payload);
        return;
    }
    const auto [at, is_new] = held_.try_emplace(seq, payload.begin(), payload.end());
    if (is_new) {
        held_bytes_ += payload.size();
    } else if (phase_ == Phase::Proving) {
        // The same number twice over one connection: the later one is the newer process's.
        held_bytes_ += payload.size() - at->second.size();
        at->second.assign(payload.begin(), payload.end());
    }
}

void Stream::drain() {
    while (!held_.empty() && held_.begin()->first <= sequence_.next()) {
        const auto node = held_.extract(held_.begin());
        held_bytes_ -= node.mapped().size();
        if (node.key() == sequence_.next()) {
            take(node.key(), node.mapped());
        } else if (!sequence_.knows(node.key(), fingerprint(node.mapped()))) {
            restart(node.key(), node.mapped());
            return;
        }
    }
}

void Stream::restart(std::uint64_t seq, Bytes payload) {
    out_.forget(Loss::Restart);
    sequence_.restart();
    // Held batches with later numbers may be the new process's; each has its place or is a gap.
    held_.clear();
    held_bytes_ = 0;
    has_blocks_ = doubtful_ = has_hole_ = false;
    next_trust_ = Trust::Restarted;
    if (seq == 0) {
        if (is_replaying()) {
            phase_ = Phase::FromZero;
        }
        take(seq, payload);
        if (is_replaying()) {
            begin(Phase::Filling);
        } else {
            settle();
        }
        return;
    }
    if (can_replay_) {
        hold(seq, payload);
        begin(Phase::FromZero);
        return;
    }
    sequence_.skip_to(seq);
    next_trust_ = Trust::LateJoin;
    take(seq, payload);
    settle();
}

void Stream::begin(Phase phase) {
    phase_ = phase;
    rounds_ = 0;
    progressed_ = false;
    out_.ask(phase == Phase::Proving ? sequence_.next() - 1 : sequence_.next());
}

// What is missing before the held batches will not come: go on without it.
void Stream::give_up() {
    if (is_replaying()) {
        phase_ = Phase::Live;
        out_.replay_over();
    }
    while (!held_.empty()) {
        const std::uint64_t first = held_.begin()->first;
        if (first > sequence_.next()) {
            const std::uint64_t missing = first - sequence_.next();
            if (has_blocks_) {
                has_hole_ = true;
                raise(Doubt::Gap, missing);
            } else {
                next_trust_ = Trust::LateJoin;
            }
            sequence_.skip_to(first);
        }
        drain();
        if (is_replaying()) {
            return;  // one of them was a restart, and that is being replayed
        }
    }
    settle();
}

void Stream::settle() {
    if (is_replaying()) {
        phase_ = Phase::Live;
        out_.replay_over();
    }
    if (!has_hole_) {
        doubtful_ = false;
        out_.trust(next_trust_);
        next_trust_ = Trust::Filled;
    }
}

void Stream::raise(Doubt why, std::uint64_t missing) {
    if (has_blocks_) {
        doubtful_ = true;
        out_.doubt(why, missing);
    }
}

}  // namespace sluice::vllm
