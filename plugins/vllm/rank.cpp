#include "plugins/vllm/rank.hpp"

#include "plugins/vllm/replay.hpp"

namespace sluice::vllm {

namespace {

constexpr std::string_view kAdviseReplay = R"(set "replay_endpoint" in --kv-events-config)";
constexpr std::string_view kAdviseBind = R"(set "endpoint":"tcp://*:5557" in --kv-events-config)";
constexpr std::string_view kAdvisePublish =
    "see that the engine runs with --kv-events-config and that kvZmqPort is its port, or leave "
    "kvZmqPort out; of another engine kind set kvEngineType";
constexpr std::string_view kAdvisePorts =
    "keep endpoint and replay_endpoint of --kv-events-config further apart than the number of "
    "ranks";
constexpr std::uint64_t kMaxMessageBytes = kMaxPayloadBytes + (64U << 10U);

std::string_view advise_publish(const Settings& settings) {
    return settings.events_from.empty() ? kAdvisePublish
                                        : "see that the gateway of kvEventsFrom runs";
}

}  // namespace

Rank::Rank(Owner& owner, Feed feed)
    : owner_(owner),
      host_(owner.host()),
      feed_(std::move(feed)),
      stream_(*this, !feed_.replay.empty() && !feed_.ports_collide),
      attestor_(owner.settings()),
      down_since_us_(host_.now_us()) {
    if (feed_.address.empty()) {
        said_unreachable_ = true;
        say(SLUICE_KV_DEAD, SLUICE_WHY_UNREACHABLE, 1, "unreachable", feed_.trouble, kAdviseBind);
        return;
    }
    if (feed_.ports_collide) {
        say(SLUICE_KV_SAME, SLUICE_WHY_UNREACHABLE, 1, "ports_collide",
            "the replay port of this rank is another rank's publisher", kAdvisePorts);
    }
    ZmqAsk ask;
    ask.kind = SLUICE_ZMQ_SUB;
    ask.endpoint = owner_.endpoint();
    ask.dp_rank = feed_.rank;
    ask.address = feed_.address;
    ask.topic = feed_.topic;
    ask.max_message_bytes = kMaxMessageBytes;
    const Started opened = subscription_.open(
        host_, ask, [this](std::span<const sluice_bytes> frames) { on_message(frames); },
        [this](bool up) { on_link(up); });
    if (!opened) {
        said_unreachable_ = true;
        say(SLUICE_KV_DEAD, SLUICE_WHY_UNREACHABLE, 1, "unreachable", opened.what);
    }
}

Rank::~Rank() = default;

void Rank::on_message(std::span<const sluice_bytes> frames) {
    if (frames.size() != 3) {
        count(SLUICE_WHY_MALFORMED, 1);
        return;
    }
    const auto seq = read_sequence(view(frames[1]));
    if (!seq || *seq == UINT64_MAX) {
        count(SLUICE_WHY_MALFORMED, 1);
        return;
    }
    stream_.live(*seq, view(frames[2]));
}

void Rank::on_link(bool up) {
    if (up == linked_) {
        return;
    }
    linked_ = up;
    if (up) {
        said_unreachable_ = false;
        was_linked_ = true;
        stream_.link_up();
    } else {
        down_since_us_ = host_.now_us();
        stream_.link_down();
        say(SLUICE_KV_UNPROVEN, SLUICE_WHY_UNREACHABLE, 1, "unreachable",
            "the event connection went down", advise_publish(owner_.settings()));
    }
    owner_.link_changed(up);
}

void Rank::tick() {
    if (linked_ || said_unreachable_ || host_.now_us() - down_since_us_ < kUnreachableUs) {
        return;
    }
    said_unreachable_ = true;
    if (feed_.may_connect_out && !was_linked_) {
        say(SLUICE_KV_DEAD, SLUICE_WHY_UNREACHABLE, 1, "publisher_connects_out",
            "the engine's publisher does not listen at " + feed_.address, kAdviseBind);
    } else {
        say(SLUICE_KV_DEAD, SLUICE_WHY_UNREACHABLE, 1, "unreachable",
            "nothing listens at " + feed_.address, advise_publish(owner_.settings()));
    }
}

bool Rank::apply(std::uint64_t seq, Stream::Bytes payload) {
    Batch batch;
    if (!decode(payload, batch)) {
        return false;
    }
    if (batch.skipped != 0) {
        count(SLUICE_WHY_UNKNOWN, batch.skipped);
    }
    Translated out = translator_.translate(batch);
    count(SLUICE_WHY_NOT_LOOKUP, out.not_lookup);
    count(SLUICE_WHY_UNKNOWN, out.unknown_medium);
    count(SLUICE_WHY_PARTIAL, out.partial);
    check_block_size();
    attest(out);
    if (refused_ || out.events.empty()) {
        return true;
    }
    sluice_kv_batch send{};
    send.dp_rank = feed_.rank;
    send.endpoint = owner_.endpoint();
    send.seq = seq;
    send.engine_time_us = batch.engine_time_s > 0 && batch.engine_time_s < 1e13
                              ? static_cast<std::uint64_t>(batch.engine_time_s * 1e6)
                              : 0;
    send.events = array_of(std::span<const sluice_kv_event>(out.events));
    if (const Started applied = host_.apply(send); !applied) {
        host_.warn(
            "kv batch not applied",
            {{"endpoint", owner_.endpoint()}, {"rank", feed_.rank}, {"error", applied.what}});
        return false;  // a hole like any other
    }
    if (out.cleared && !translator_.has_other_tiers()) {
        stream_.all_cleared();
    }
    return true;
}

void Rank::check_block_size() {
    const std::uint32_t seen = translator_.block_tokens();
    if (seen == 0 || seen == told_block_tokens_) {
        return;
    }
    told_block_tokens_ = seen;
    owner_.block_tokens_seen(seen);
    const auto& declared = owner_.settings().block_size;
    const bool refuse = declared && *declared != seen;
    if (refuse) {
        host_.reset(owner_.endpoint(), feed_.rank);
        say(SLUICE_KV_REFUSED, SLUICE_WHY_BLOCK_SIZE, 1, "block_size",
            "the engine's blocks hold " + std::to_string(seen) + " tokens, the rule says " +
                std::to_string(*declared),
            "set kvBlockSize to " + std::to_string(seen) + ", or leave it out");
    } else if (refused_) {
        say(SLUICE_KV_LIVE, SLUICE_WHY_NONE, 0, "");
    }
    refused_ = refuse;
}

void Rank::attest(Translated& out) {
    for (const Translated::Stored& stored : out.roots) {
        const Event& event = *stored.event;
        sluice_kv_event& sent = out.events[stored.at];
        if (sent.opaque != nullptr || event.block_size != translator_.block_tokens()) {
            continue;
        }
        Root root;
        root.tokens = event.tokens;
        root.hashes = event.hashes;
        root.block_tokens = event.block_size;
        root.who.lora = view(sent.lora);
        root.who.salt = view(sent.salt);
        root.who.lora_path = root.who.lora.empty() ? "" : owner_.lora_path(root.who.lora);
        root.shows_keys = event.has_extra_keys;
        if (const auto verdict = attestor_.see(root)) {
            switch (verdict->result) {
                case Attestation::Attested:
                    say(SLUICE_KV_SAME, SLUICE_WHY_NONE, 1, "attested", verdict->detail);
                    break;
                case Attestation::OtherAlgorithm:
                    say(SLUICE_KV_SAME, SLUICE_WHY_ALGORITHM, 1, "hash_algo", verdict->detail,
                        "leave kvHashAlgo out, or set it to the engine's "
                        "--prefix-caching-hash-algo");
                    break;
                case Attestation::OtherSeed:
                    say(SLUICE_KV_SAME, SLUICE_WHY_SEED, 1, "seed", verdict->detail,
                        "leave kvHashSeed out, or set it to the engine's PYTHONHASHSEED");
                    break;
                case Attestation::Unproven:
                    say(SLUICE_KV_SAME, SLUICE_WHY_UNKNOWN, 1, "unproven", verdict->detail);
                    break;
            }
        }
        if (!root.shows_keys && attestor_.is_known()) {
            // An engine that hides salts and images: what its plain hash does not explain is
            // opaque.
            const std::size_t plain = attestor_.plain_blocks(root);
            if (plain < event.hashes.size()) {
                Reading& reading = out.readings.emplace_back();
                reading.opaque.assign(event.hashes.size(), 1);
                std::fill_n(reading.opaque.begin(), plain, std::uint8_t{0});
                sent.opaque = reading.opaque.data();
            }
        }
    }
}

void Rank::forget(Loss why) {
    translator_.forget();
    attestor_.forget();
    told_block_tokens_ = 0;
    refused_ = false;
    host_.reset(owner_.endpoint(), feed_.rank);
    say(SLUICE_KV_WAITING, why == Loss::Restart ? SLUICE_WHY_RESTART : SLUICE_WHY_GAP, 1, "",
        why == Loss::Restart ? "the engine restarted" : "the replay buffer no longer reaches back");
}

void Rank::doubt(Doubt why, std::uint64_t missing) {
    const Lack lack = replay_lack();
    switch (why) {
        case Doubt::Gap:
            say(SLUICE_KV_UNPROVEN, SLUICE_WHY_GAP, missing,
                lack.reason.empty() ? "gap" : lack.reason,
                missing == 0 ? "" : std::to_string(missing) + " batches are missing", lack.advice);
            break;
        case Doubt::Reconnect:
            say(SLUICE_KV_UNPROVEN, SLUICE_WHY_UNREACHABLE, 0,
                lack.reason.empty() ? "reconnect" : lack.reason,
                "the event connection was lost: it may be another engine process", lack.advice);
            break;
        case Doubt::Malformed:
            say(SLUICE_KV_UNPROVEN, SLUICE_WHY_MALFORMED, missing, "malformed",
                "a batch could not be decoded");
            break;
    }
}

void Rank::trust(Trust why) {
    if (refused_) {
        return;
    }
    const bool late = why == Trust::LateJoin;
    const Lack lack = late ? replay_lack() : Lack{};
    say(SLUICE_KV_LIVE,
        late                      ? SLUICE_WHY_LATE_JOIN
        : why == Trust::Restarted ? SLUICE_WHY_RESTART
                                  : SLUICE_WHY_NONE,
        late ? 1 : 0, lack.reason, late ? "blocks stored before this are not known" : "",
        lack.advice);
}

void Rank::ask(std::uint64_t from) {
    asked_from_ = from;
    request_sent_ = false;
    round_answered_ = false;
    round_heard_us_ = host_.now_us();
    ZmqAsk ask;
    ask.kind = SLUICE_ZMQ_DEALER;
    ask.endpoint = owner_.endpoint();
    ask.dp_rank = feed_.rank;
    ask.address = feed_.replay;
    ask.max_message_bytes = kMaxMessageBytes;
    const Started opened = replay_.open(
        host_, ask, [this](std::span<const sluice_bytes> frames) { on_replay(frames); });
    if (opened) {
        send_request();
    }
    if (!replay_timer_.running()) {
        (void)replay_timer_.start(host_, kReplayTickUs, kReplayTickUs, [this] { replay_tick(); });
    }
}

void Rank::send_request() {
    std::array<std::uint8_t, 8> buffer{};
    const auto frames = write_replay(asked_from_, buffer);
    request_sent_ = replay_.send(frames) == SLUICE_OK;
}

void Rank::on_replay(std::span<const sluice_bytes> frames) {
    const ReplayReply reply = read_replay(frames);
    round_heard_us_ = host_.now_us();
    switch (reply.kind) {
        case ReplayReply::Kind::Malformed:
            count(SLUICE_WHY_MALFORMED, 1);
            return;
        case ReplayReply::Kind::Batch:
            round_answered_ = true;
            stream_.replayed(reply.seq, reply.payload);
            return;
        case ReplayReply::Kind::End:
            stream_.round_over();
            return;
    }
}

Rank::Lack Rank::replay_lack() const noexcept {
    if (feed_.ports_collide) {
        return {"ports_collide", kAdvisePorts};
    }
    return feed_.replay.empty() ? Lack{"replay_off", kAdviseReplay} : Lack{};
}

void Rank::replay_tick() {
    if (!request_sent_ && replay_.is_open()) {
        send_request();
    }
    if (host_.now_us() - round_heard_us_ < kRoundSilenceUs) {
        return;
    }
    if (round_answered_) {
        stream_.round_over();
    } else {
        say(SLUICE_KV_SAME, SLUICE_WHY_UNREACHABLE, 1, "replay_off",
            "the replay socket does not answer", kAdviseReplay);
        stream_.round_unanswered();
    }
}

void Rank::replay_over() {
    replay_timer_.cancel();
    replay_.close();
}

void Rank::count(std::uint32_t why, std::uint64_t n) {
    if (n != 0) {
        say(SLUICE_KV_SAME, why, n, "");
    }
}

void Rank::say(std::uint32_t state, std::uint32_t why, std::uint64_t n, std::string_view reason,
               std::string_view detail, std::string_view advice) {
    sluice_kv_report report{};
    report.dp_rank = feed_.rank;
    report.endpoint = owner_.endpoint();
    report.state = state;
    report.why = why;
    report.count = n;
    report.detail = borrow(detail);
    report.reason = borrow(reason);
    report.advice = borrow(advice);
    host_.report(report);
}

}  // namespace sluice::vllm
