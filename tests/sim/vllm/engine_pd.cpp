// The half of Engine that has to do with other engines: blocks held for them, blocks read there,
// and what becomes of a request whose blocks do not come.
#include <algorithm>
#include <cstdlib>
#include <limits>

#include "core/base/clock.hpp"
#include "tests/sim/engine/fault.hpp"
#include "tests/sim/engine/sequence.hpp"
#include "tests/sim/vllm/engine.hpp"

namespace sluice::sim::vllm {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

const TransferAsk& ask_of(const Sequence& s) {
    static const TransferAsk kNothing;
    const auto* ask = static_cast<const TransferAsk*>(s.request.handoff.get());
    return ask == nullptr ? kNothing : *ask;
}

}  // namespace

Engine::~Engine() {
    link_.reset();  // it calls back
    const auto held = lock();
    set_desk(nullptr);
}

Status Engine::start_link(const std::string& host, std::uint16_t port) {
    if (!pd_.transfers()) {
        return {};
    }
    link_ = std::make_unique<KvLink>(pd_, host, port, block_size_);
    if (auto s = link_->start(store()); !s) {
        return s;
    }
    const auto held = lock();
    set_desk(this);
    return {};
}

KvLink::Store Engine::store() {
    KvLink::Store out;
    out.read = [this](const std::vector<BlockId>& ids) {
        const auto held = lock();
        return blocks().read(ids);
    };
    out.notice = [this](const std::string& id) {
        const auto held = lock();
        if (leases_.count(id) == 0) {
            ++counts().late_notices;
            return;
        }
        ++counts().kv_read;
        end_lease(id);
        wake();
    };
    out.heartbeat = [this](const std::string& id) {
        const auto held = lock();
        const auto it = leases_.find(id);
        if (it != leases_.end() && it->second.ends_us != 0) {
            it->second.ends_us = now_us() + pd_.lease_us;
        }
    };
    out.lookup = [this](const std::string& id) {
        const auto held = lock();
        const auto it = leases_.find(id);
        return it == leases_.end() ? std::nullopt : std::optional(it->second.blocks);
    };
    return out;
}

std::vector<LeaseView> Engine::leases() const {
    const auto held = lock();
    const std::uint64_t now = now_us();
    std::vector<LeaseView> out;
    for (const auto& [id, lease] : leases_) {
        LeaseView& v = out.emplace_back();
        v.request_id = id;
        v.blocks = lease.blocks.size();
        v.age_us = now - lease.made_us;
        if (lease.ends_us != 0) {
            v.left_us = lease.ends_us > now ? lease.ends_us - now : 0;
        }
    }
    return out;
}

// A request that brings another engine's blocks is known there from the moment it is queued here.
void Engine::queued(Sequence& s) {
    const TransferAsk& ask = ask_of(s);
    if (!ask.remote || ask.hangs) {
        return;
    }
    // Up to 0.12 prefill is told the reader's own id, and knows only its own.
    const bool names_own = !pd_.names_request() && !ask.remote->is_by_transfer_id;
    s.fetch = link_->watch(*ask.remote, names_own ? s.request.id : ask.remote->request_id);
}

// Takes blocks for the whole prompt and has them filled.
HandoffDesk::Start Engine::start(const std::shared_ptr<Sequence>& s) {
    const TransferAsk& ask = ask_of(*s);
    if (ask.hangs) {
        return Start::Parks;
    }
    if (ask.kills) {
        return Start::Kills;
    }
    if (s->fetch == 0) {
        return Start::Computes;
    }
    const RemotePrefill& remote = *ask.remote;
    const auto wanted = blocks().would_reserve(*s, remote.is_by_transfer_id
                                                       ? std::numeric_limits<std::size_t>::max()
                                                       : remote.blocks.size());
    if (!wanted) {
        return Start::Kills;
    }
    if (!blocks().reserve(*s)) {
        return Start::Waits;
    }
    s->computed = wanted->cached;
    if (!s->is_scheduled_once) {
        counts().external_queries += s->size() - s->computed;
    }
    tell_scheduled(*s, wanted->cached);
    link_->pull(s->fetch, wanted->missing,
                [this, s](KvLink::Pulled pulled) { finish_pull(s, std::move(pulled)); });
    return Start::Parks;
}

void Engine::finish_pull(const std::shared_ptr<Sequence>& s, KvLink::Pulled pulled) {
    const auto held = lock();
    if (s->is_done) {
        return;
    }
    s->fetch = 0;
    if (pulled.is_ok) {
        counts().external_hits += s->size() - s->computed;
        blocks().fill_reserved(*s, std::move(pulled.blocks));
        s->computed = s->size() - 1;
        const auto& remote = *ask_of(*s).remote;
        unpark(s, true, pd_.reports_prefill_hits() ? remote.cached_tokens : s->size());
    } else {
        ++counts().failed_transfers;
        if (pd_.recomputes) {
            cache().release(*s);
            s->computed = 0;
            unpark(s, false, 0);
        } else {
            fail(*s, false);
        }
    }
    wake();
}

// A request with a transfer ends before its blocks were read: prefill is told, or the engine falls
// over what it waits for.
void Engine::left(Sequence& s) {
    if (ask_of(s).hangs) {
        std::_Exit(kForeignTransferExit);
    }
    if (s.fetch != 0) {
        link_->drop(std::exchange(s.fetch, 0));
    }
}

// Keeps the blocks of a finished request for a decode engine.
void Engine::finished(Sequence& s, FinishReason reason) {
    const TransferAsk& ask = ask_of(s);
    const bool ended_right = reason == FinishReason::Length ||
                             (reason == FinishReason::Stop && pd_.hands_over_after_stop());
    const std::string& id = ask.transfer_id.empty() ? s.request.id : ask.transfer_id;
    // With an id in use the blocks are freed as any request's.
    if (!ask.holds_blocks || !ended_right || leases_.count(id) != 0) {
        return;
    }
    Lease& lease = leases_[id];
    lease.made_us = now_us();
    lease.ends_us = pd_.lease_us == 0 ? 0 : lease.made_us + pd_.lease_us;
    lease.blocks = blocks().keep(s);
    if (!ask.transfer_id.empty()) {
        return;
    }
    auto h = std::make_shared<Handoff>();
    h->request_id = id;
    h->engine_id = link_->engine_id();
    h->host = link_->host();
    h->port = link_->port();
    h->blocks = lease.blocks;
    h->tokens = static_cast<std::uint32_t>(s.request.prompt.size());
    h->cached_tokens = cached_tokens(s);
    offer(s, std::move(h));
}

std::uint64_t Engine::expire() {
    const std::uint64_t now = now_us();
    std::uint64_t next = kNever;
    for (auto it = leases_.begin(); it != leases_.end();) {
        const auto at = it++;  // end_lease() takes it out
        const std::uint64_t ends = at->second.ends_us;
        if (ends != 0 && ends <= now) {
            ++counts().kv_expired;
            end_lease(std::string(at->first));
        } else if (ends != 0) {
            next = std::min(next, ends - now);
        }
    }
    return next;
}

void Engine::end_lease(const std::string& id) {
    const auto it = leases_.find(id);
    blocks().give_back(it->second.blocks);
    leases_.erase(it);
    tell_usage();
}

}  // namespace sluice::sim::vllm
