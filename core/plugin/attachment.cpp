#include "core/plugin/attachment.hpp"

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/plugin/event_thread.hpp"
#include "core/plugin/runtime.hpp"
#include "core/plugin/sdk_text.hpp"

namespace sluice::plugin {

AttachmentRecord::AttachmentRecord(std::shared_ptr<EngineInstance> for_engine,
                                   const EndpointInfo& of, std::uint32_t first_watch)
    : engine(std::move(for_engine)),
      info(of),
      endpoint(to_sdk(info)),
      wanted_watch(first_watch),
      authorization(of.authorization) {}

void AttachmentRecord::set(Attachment::State next, std::string why,
                           std::shared_ptr<const Attached> now) {
    {
        const std::lock_guard lock(mu);
        state = next;
        error = std::move(why);
        current.swap(now);
    }
    changed.notify_all();
    // `now` holds the one before; it ends here, outside the lock.
}

AttachmentBook::Key AttachmentBook::key_of(const EngineInstance& engine,
                                           const std::string& base_url) {
    return {engine.plugin()->id(), base_url};
}

AttachmentPtr AttachmentBook::attach(const std::shared_ptr<EngineInstance>& engine,
                                     const EndpointInfo& endpoint, std::uint32_t watch) {
    const std::lock_guard lock(mu_);
    auto& queue = queues_[key_of(*engine, endpoint.base_url)];
    for (const RecordPtr& record : queue) {
        if (record->engine != engine) {
            continue;
        }
        if (AttachmentPtr handle = record->handle.lock()) {
            const std::uint32_t before = record->wanted_watch.fetch_or(watch);
            if ((before | watch) != before) {
                events_.post_or_run([this, record] { widen(record); });
            }
            return handle;
        }
    }
    const auto record = std::make_shared<AttachmentRecord>(engine, endpoint, watch);
    auto handle = std::make_shared<Attachment>(record);
    record->handle = handle;
    queue.push_back(record);
    if (queue.size() == 1) {
        events_.post_or_run([this, record] { begin(record); });
    } else {
        events_.post_or_run([this, first = queue.front()] { make_way(first); });
    }
    return handle;
}

bool AttachmentBook::is_held_elsewhere(const EngineInstance& engine,
                                       const std::string& base_url) const {
    const std::lock_guard lock(mu_);
    const auto it = queues_.find(key_of(engine, base_url));
    return it != queues_.end() &&
           std::any_of(it->second.begin(), it->second.end(), [&](const RecordPtr& record) {
               return record->engine.get() != &engine && !record->handle.expired();
           });
}

void AttachmentBook::begin(const RecordPtr& record) {
    if (record->is_released || record->is_live) {
        return;
    }
    record->watch = record->wanted_watch.load();
    auto err = empty_error();
    sluice_attachment* at = nullptr;
    const sluice_status status = record->engine->attach_now(*record, record->watch, &at, &err);
    if (status != SLUICE_OK) {
        const std::string why = message(status, err);
        log::warn("endpoint not attached", {{"plugin", record->engine->plugin()->id()},
                                            {"endpoint", record->info.name},
                                            {"why", why}});
        // Whoever hears of the failure may ask again, and must not be given this record.
        leave(record);
        record->set(Attachment::State::Failed, why, nullptr);
        return;
    }
    record->is_live = true;
    record->set(Attachment::State::Attached, {},
                std::make_shared<const Attached>(record->engine, record, at));
}

void AttachmentBook::widen(const RecordPtr& record) {
    if (record->is_live && !record->is_released && record->watch != record->wanted_watch.load()) {
        // Once the last leg lets go, unused() attaches again with what is wanted then.
        record->set(Attachment::State::Waiting, {}, nullptr);
    }
}

void AttachmentBook::release(const RecordPtr& record) {
    record->is_released = true;
    const bool was_live = record->is_live;
    record->set(Attachment::State::Waiting, {}, nullptr);
    if (!was_live) {
        leave(record);
    }
}

void AttachmentBook::unused(const RecordPtr& record, sluice_attachment* at) {
    record->engine->detach_now(*record, at);
    record->is_live = false;
    if (record->is_released) {
        leave(record);
    } else if (std::exchange(record->makes_way, false)) {
        begin(pass_turn(record));
    } else {
        begin(record);
    }
}

void AttachmentBook::judged(const AttachmentRecord* of, bool is_refused) {
    RecordPtr record;
    {
        const std::lock_guard lock(mu_);
        for (const auto& [key, queue] : queues_) {
            if (!queue.empty() && queue.front().get() == of) {
                record = queue.front();
            }
        }
    }
    if (!record) {
        return;
    }
    record->refused_us = is_refused ? now_us() : 0;
    if (is_refused) {
        events_.post_or_run([this, record] { make_way(record); });
    }
}

// The first behind it that was not refused a moment ago; null: none.
AttachmentBook::RecordPtr AttachmentBook::next_of(const std::deque<RecordPtr>& queue) {
    const std::uint64_t now = now_us();
    for (std::size_t i = 1; i < queue.size(); ++i) {
        const bool is_due = queue[i]->refused_us == 0 || now - queue[i]->refused_us >= kTurnUs;
        if (is_due && !queue[i]->is_released) {
            return queue[i];
        }
    }
    return nullptr;
}

void AttachmentBook::make_way(const RecordPtr& record) {
    if (record->refused_us == 0 || !record->is_live || record->is_released) {
        return;
    }
    {
        const std::lock_guard lock(mu_);
        const auto it = queues_.find(key_of(*record->engine, record->info.base_url));
        if (it == queues_.end() || it->second.front() != record || !next_of(it->second)) {
            return;
        }
    }
    record->makes_way = true;
    record->set(Attachment::State::Waiting, {}, nullptr);
}

AttachmentBook::RecordPtr AttachmentBook::pass_turn(const RecordPtr& record) {
    const std::lock_guard lock(mu_);
    auto& queue = queues_[key_of(*record->engine, record->info.base_url)];
    const RecordPtr next = next_of(queue);
    if (!next) {
        return record;  // it has gone meanwhile
    }
    std::erase(queue, next);
    std::erase(queue, record);
    queue.push_front(next);
    queue.push_back(record);
    return next;
}

void AttachmentBook::leave(const RecordPtr& record) {
    RecordPtr next;
    {
        const std::lock_guard lock(mu_);
        const auto it = queues_.find(key_of(*record->engine, record->info.base_url));
        if (it == queues_.end()) {
            return;
        }
        auto& queue = it->second;
        const bool was_first = !queue.empty() && queue.front() == record;
        std::erase(queue, record);
        if (queue.empty()) {
            queues_.erase(it);
        } else if (was_first) {
            next = queue.front();
        }
    }
    if (next) {
        begin(next);
    }
}

Attached::Attached(std::shared_ptr<EngineInstance> engine, std::shared_ptr<AttachmentRecord> record,
                   sluice_attachment* at)
    : engine_(std::move(engine)), record_(std::move(record)), at_(at) {}

Attached::~Attached() {
    Runtime& runtime = engine_->runtime();
    runtime.events().post_or_run(
        [&runtime, record = std::move(record_), at = at_, engine = std::move(engine_)] {
            runtime.attachments().unused(record, at);
        });
}

Attachment::Attachment(std::shared_ptr<AttachmentRecord> record) : record_(std::move(record)) {}

Attachment::~Attachment() {
    Runtime& runtime = record_->engine->runtime();
    runtime.events().post_or_run(
        [&runtime, record = std::move(record_)] { runtime.attachments().release(record); });
}

std::shared_ptr<const Attached> Attachment::hold() const {
    const std::lock_guard lock(record_->mu);
    return record_->current;
}

Attachment::State Attachment::state() const {
    const std::lock_guard lock(record_->mu);
    return record_->state;
}

std::string Attachment::error() const {
    const std::lock_guard lock(record_->mu);
    return record_->error;
}

const EndpointInfo& Attachment::endpoint() const noexcept {
    return record_->info;
}

void Attachment::set_authorization(std::string text) const {
    record_->engine->runtime().events().post_or_run(
        [record = record_, text = std::move(text)]() mutable {
            record->authorization = std::move(text);
            if (record->is_live) {
                record->engine->authorize(*record);
            }
        });
}

Status Attachment::wait(std::chrono::milliseconds limit) const {
    std::unique_lock lock(record_->mu);
    if (!record_->changed.wait_for(lock, limit, [&] { return record_->state != State::Waiting; })) {
        return Error{Code::Timeout, record_->info.name + ": still waiting to be attached"};
    }
    if (record_->state == State::Failed) {
        return Error{Code::Unavailable, record_->info.name + ": " + record_->error};
    }
    return {};
}

}  // namespace sluice::plugin
