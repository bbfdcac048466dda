#include "tests/sim/vllm/kv_link.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/base/clock.hpp"
#include "core/base/random.hpp"
#include "tests/sim/support/http_client.hpp"
#include "tests/sim/support/json.hpp"

namespace sluice::sim::vllm {
namespace {

constexpr std::uint64_t kRetryUs = 10'000;
constexpr std::uint64_t kNever = ~std::uint64_t{0};

http::Response reply(int status, std::string body) {
    http::Response r;
    r.status = status;
    r.body = std::move(body);
    return r;
}

std::string uuid() {
    const std::string hex = random_hex_id();
    return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-4" + hex.substr(13, 3) + "-8" +
           hex.substr(17, 3) + "-" + hex.substr(20, 12);
}

std::string packed(const std::vector<BlockContent>& blocks) {
    std::string out;
    for (const BlockContent& b : blocks) {
        out.append(reinterpret_cast<const char*>(b.data()), b.size() * sizeof(Slot));
    }
    return out;
}

std::vector<BlockContent> unpacked(std::string_view bytes, std::uint32_t block_size) {
    std::vector<BlockContent> out;
    const std::size_t one = block_size * sizeof(Slot);
    for (; bytes.size() >= one; bytes.remove_prefix(one)) {
        BlockContent& b = out.emplace_back(block_size);
        std::memcpy(b.data(), bytes.data(), one);
    }
    return out;
}

std::vector<BlockId> ids_of(const json::Value* list) {
    std::vector<BlockId> out;
    for (const json::Value& v :
         list == nullptr || list->array() == nullptr ? json::Array() : *list->array()) {
        out.push_back(v.integer() == nullptr ? ~BlockId{0} : static_cast<BlockId>(*v.integer()));
    }
    return out;
}

std::string ids_text(const std::vector<BlockId>& ids, const std::string& of_engine) {
    json::Writer w;
    w.open_object().field("engine_id", of_engine).key("blocks").open_array();
    for (const BlockId id : ids) {
        w.value(std::uint64_t{id});
    }
    return w.close_array().close_object().take();
}

std::string id_text(const std::string& id) {
    return json::Writer().open_object().field("id", id).close_object().take();
}

}  // namespace

KvLink::KvLink(const PdRules& rules, std::string host, std::uint16_t port, std::uint32_t block_size)
    : rules_(rules),
      host_(std::move(host)),
      block_size_(block_size),
      engine_id_(uuid()),
      server_(host_, port, [this](auto& request, auto& exchange) { serve(request, exchange); }) {}

KvLink::~KvLink() {
    worker_.request_stop();
    wake_.notify_all();
}

Status KvLink::start(Store store) {
    store_ = std::move(store);
    if (auto s = server_.listen(); !s) {
        return s;
    }
    worker_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    pthread_setname_np(worker_.native_handle(), "kv-link");
    return {};
}

void KvLink::serve(http::Request& request, http::Exchange& exchange) {
    const auto parsed = json::parse(request.body.empty() ? "{}" : request.body);
    const auto* body = std::get_if<json::Value>(&parsed);
    if (body == nullptr) {
        return exchange.send(reply(400, "{}"));
    }
    const std::string id(body->text_of("id"));
    if (request.path == "/handshake") {
        json::Writer w;
        w.open_object().field("engine_id", engine_id_);
        w.field("block_size", std::uint64_t{block_size_}).close_object();
        return exchange.send(reply(200, w.take()));
    }
    if (request.path == "/read") {
        // An agent of a process that is gone reads nothing from the one that came after it.
        const auto content = body->text_of("engine_id") == engine_id_
                                 ? store_.read(ids_of(body->get("blocks")))
                                 : std::nullopt;
        return exchange.send(content ? reply(200, packed(*content)) : reply(400, "{}"));
    }
    if (request.path == "/lookup") {
        const auto blocks = store_.lookup(id);
        return exchange.send(blocks ? reply(200, ids_text(*blocks, engine_id_)) : reply(404, "{}"));
    }
    if (request.path == "/notice") {
        store_.notice(id);
    } else if (request.path == "/heartbeat") {
        store_.heartbeat(id);
    }
    exchange.send(reply(200, "{}"));
}

KvLink::Job KvLink::watch(RemotePrefill remote, std::string notice_id) {
    Job job = 0;
    {
        const std::lock_guard lock(mu_);
        job = next_job_++;
        Task& task = tasks_[job];
        task.remote = std::move(remote);
        task.notice_id = std::move(notice_id);
        task.due_us = rules_.renews_leases() && !task.remote.is_by_transfer_id ? now_us() : kNever;
    }
    wake_.notify_one();
    return job;
}

void KvLink::pull(Job job, std::size_t count, Done done) {
    {
        const std::lock_guard lock(mu_);
        Task& task = tasks_[job];
        task.count = count;
        task.done = std::move(done);
        task.due_us = now_us();
        task.fails_us = task.due_us + rules_.connect_us;
    }
    wake_.notify_one();
}

void KvLink::drop(Job job) {
    {
        const std::lock_guard lock(mu_);
        const auto it = tasks_.find(job);
        if (it == tasks_.end()) {
            return;
        }
        it->second.is_dropped = true;
        it->second.due_us = now_us();
    }
    wake_.notify_one();
}

void KvLink::run(const std::stop_token& stop) {
    std::unique_lock lock(mu_);
    while (!stop.stop_requested()) {
        const auto next = std::min_element(
            tasks_.begin(), tasks_.end(),
            [](const auto& a, const auto& b) { return a.second.due_us < b.second.due_us; });
        const std::uint64_t now = now_us();
        if (next == tasks_.end() || next->second.due_us > now) {
            const std::uint64_t wait = next == tasks_.end() ? kNever : next->second.due_us - now;
            wake_.wait_for(
                lock, stop, std::chrono::microseconds(std::min<std::uint64_t>(wait, 1'000'000)),
                [&] {
                    return std::any_of(tasks_.begin(), tasks_.end(),
                                       [](const auto& t) { return t.second.due_us <= now_us(); });
                });
            continue;
        }
        const Job job = next->first;
        Task task = next->second;  // worked on without the lock
        next->second.due_us = kNever;
        lock.unlock();
        Pulled pulled;
        Outcome outcome = Outcome::Later;
        if (task.is_dropped) {
            notice(task, task.remote.host, task.remote.port);
            outcome = Outcome::Done;
        } else if (!task.done) {
            beat(task);
        } else {
            outcome = attempt(task, pulled);
        }
        const bool is_over = outcome != Outcome::Later;
        if (is_over && task.done && !task.is_dropped) {
            pulled.is_ok = outcome == Outcome::Done;
            task.done(std::move(pulled));
        }
        lock.lock();
        const auto it = tasks_.find(job);
        if (is_over) {
            tasks_.erase(it);
        } else if (it->second.due_us == kNever) {  // nothing was asked meanwhile
            it->second.due_us =
                now_us() + (task.done ? kRetryUs : std::max<std::uint64_t>(rules_.lease_us / 6, 1));
        }
    }
}

void KvLink::beat(const Task& task) {
    (void)http::ask(task.remote.host, task.remote.port, "POST", "/heartbeat",
                    id_text(task.notice_id));  // a peer that is gone is met again by the pull
}

void KvLink::notice(const Task& task, const std::string& host, std::uint16_t port) const {
    (void)http::ask(host, port, "POST", "/notice",
                    id_text(task.notice_id));  // a peer that is gone holds nothing
}

KvLink::Outcome KvLink::shake_hands(const Task& task) {
    const RemotePrefill& r = task.remote;
    if (known_.count(r.engine_id) != 0) {
        return Outcome::Done;
    }
    const auto met = http::ask(r.host, r.port, "POST", "/handshake", "{}");
    if (!met) {
        // Its socket connects again by itself; only time ends that.
        return met.error().code == Code::Unavailable && now_us() < task.fails_us ? Outcome::Later
                                                                                 : Outcome::Failed;
    }
    const auto parsed = json::parse(met->body);
    const auto* peer = std::get_if<json::Value>(&parsed);
    const json::Value* size = peer == nullptr ? nullptr : peer->get("block_size");
    if (peer == nullptr || peer->text_of("engine_id") != r.engine_id || size == nullptr ||
        size->integer() == nullptr || *size->integer() != std::int64_t{block_size_}) {
        return Outcome::Failed;
    }
    known_.emplace(r.engine_id, std::pair(r.host, r.port));
    return Outcome::Done;
}

// From the bootstrap server to the engine, and from the transfer id to its blocks.
KvLink::Outcome KvLink::find_mooncake(Task& task) {
    RemotePrefill& r = task.remote;
    const auto ranks = http::ask(r.host, r.port, "GET", "/query", "");
    if (!ranks) {
        return now_us() < task.fails_us ? Outcome::Later : Outcome::Failed;
    }
    const auto parsed = json::parse(ranks->body);
    const auto* all = std::get_if<json::Value>(&parsed);
    RemotePrefill found = r;
    found.port = 0;
    for (const json::Member& m :
         all == nullptr || all->object() == nullptr ? json::Object() : *all->object()) {
        const json::Value* worker = m.value.get("worker_addr");
        const json::Value* port = worker == nullptr ? nullptr : worker->get("port");
        if (m.value.text_of("engine_id") == r.engine_id && port != nullptr &&
            port->integer() != nullptr) {
            found.host = worker->text_of("host");
            found.port = static_cast<std::uint16_t>(*port->integer());
        }
    }
    if (found.port == 0) {
        return Outcome::Failed;
    }
    const auto held = http::ask(found.host, found.port, "POST", "/lookup", id_text(r.request_id));
    if (!held) {
        return Outcome::Failed;
    }
    if (held->status != 200) {
        return Outcome::Later;  // without an end: prefill may still come
    }
    const auto blocks = json::parse(held->body);
    const auto* list = std::get_if<json::Value>(&blocks);
    found.blocks = ids_of(list == nullptr ? nullptr : list->get("blocks"));
    r = std::move(found);
    task.count = r.blocks.size();
    return Outcome::Done;
}

KvLink::Outcome KvLink::attempt(Task& task, Pulled& out) {
    if (task.remote.is_by_transfer_id) {
        if (const Outcome found = find_mooncake(task); found != Outcome::Done) {
            return found;
        }
    }
    if (const Outcome met = shake_hands(task); met != Outcome::Done) {
        return met;
    }
    const RemotePrefill& r = task.remote;
    const std::size_t skip = r.blocks.size() - std::min(task.count, r.blocks.size());
    const std::vector<BlockId> wanted(r.blocks.begin() + static_cast<std::ptrdiff_t>(skip),
                                      r.blocks.end());
    const auto [host, port] = known_.at(r.engine_id);
    const auto read = http::ask(host, port, "POST", "/read", ids_text(wanted, r.engine_id));
    if (!read || read->status != 200) {
        return Outcome::Failed;
    }
    out.blocks = unpacked(read->body, block_size_);
    notice(task, host, port);
    return out.blocks.size() == wanted.size() ? Outcome::Done : Outcome::Failed;
}

}  // namespace sluice::sim::vllm
