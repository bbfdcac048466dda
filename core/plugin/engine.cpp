#include "core/plugin/engine.hpp"

#include "core/plugin/attachment.hpp"
#include "core/plugin/event_side.hpp"
#include "core/plugin/host_context.hpp"
#include "core/plugin/request_call.hpp"
#include "core/plugin/runtime.hpp"
#include "core/plugin/sdk_text.hpp"

namespace sluice::plugin {
namespace {

constexpr std::size_t kMaxNames = 128;
constexpr std::size_t kMaxName = 256;
constexpr std::size_t kTableSize =
    offsetof(sluice_engine, hash_blocks) + sizeof(sluice_engine::hash_blocks);

Result<std::vector<std::string>> names(const char* const* from, const char* what) {
    std::vector<std::string> out;
    for (std::size_t i = 0; from != nullptr && from[i] != nullptr; ++i) {
        const std::size_t n = ::strnlen(from[i], kMaxName + 1);
        if (n > kMaxName || i == kMaxNames) {
            return Error{Code::Invalid, std::string(what) + " is too long"};
        }
        out.emplace_back(from[i], n);
    }
    return out;
}

}  // namespace

sluice_endpoint to_sdk(const EndpointInfo& info) noexcept {
    sluice_endpoint out{};
    out.size = sizeof out;
    out.roles = info.roles;
    out.id = info.id;
    out.base_url = borrow(info.base_url);
    out.address = borrow(info.address);
    out.name = borrow(info.name);
    out.fields = borrow(info.fields);
    out.num_dp_ranks = info.num_dp_ranks;
    out.weight = info.weight;
    return out;
}

Result<std::shared_ptr<EngineInstance>> EngineInstance::create(Runtime& runtime, PluginPtr plugin,
                                                               InstanceSpec spec) {
    std::shared_ptr<EngineInstance> out(
        new EngineInstance(runtime, std::move(plugin), std::move(spec)), InstanceDeleter{&runtime});
    if (auto created = out->Instance::create(SLUICE_EXT_ENGINE, kTableSize); !created) {
        return std::move(created).error();
    }
    if (auto read = out->read_info(); !read) {
        out->host_->count_defect("its engine table or info is not complete");
        return std::move(read).error().at(out->plugin_->id());
    }
    return out;
}

Status EngineInstance::read_info() {
    const sluice_engine& table = engine();
    if (table.info == nullptr || table.attach == nullptr || table.detach == nullptr) {
        return Error{Code::Internal, "info, attach or detach is missing"};
    }
    const sluice_engine_info* info = table.info(self_);
    if (info == nullptr || !SLUICE_HAS(sluice_engine_info, info, reserved_paths)) {
        return Error{Code::Internal, "info gives nothing usable"};
    }
    info_.caps = info->caps;
    info_.block_tokens = info->block_tokens;
    info_.uncached_tail_tokens = info->uncached_tail_tokens;
    if ((can(SLUICE_CAP_PD) &&
         (table.plan == nullptr || table.build_leg == nullptr || table.on_reply == nullptr)) ||
        (can(SLUICE_CAP_EDIT_SINGLE) && table.build_leg == nullptr) ||
        (can(SLUICE_CAP_ENGINE_KEYS) && table.hash_blocks == nullptr)) {
        return Error{Code::Internal, "it claims what it has no function for"};
    }
    auto fields = names(info->reserved_fields, "reserved_fields");
    auto paths = names(info->reserved_paths, "reserved_paths");
    if (!fields || !paths) {
        return !fields ? std::move(fields).error() : std::move(paths).error();
    }
    info_.reserved_fields = std::move(fields).value();
    info_.reserved_paths = std::move(paths).value();
    return {};
}

Result<AttachmentPtr> EngineInstance::attach(const EndpointInfo& endpoint, std::uint32_t watch) {
    if (!is_active()) {
        return Error{Code::Unavailable, name() + " is not active"};
    }
    if (const Schema* schema = plugin_->endpoint_schema()) {
        if (const auto findings = schema->check(endpoint.fields); !findings.empty()) {
            return Error{Code::Invalid, endpoint.name + ": " + findings.front().text};
        }
    }
    return runtime_.attachments().attach(shared_from_this(), endpoint, watch);
}

bool EngineInstance::is_held_elsewhere(const std::string& base_url) const {
    return runtime_.attachments().is_held_elsewhere(*this, base_url);
}

sluice_status EngineInstance::attach_now(const AttachmentRecord& record, std::uint32_t watch,
                                         sluice_attachment** out,
                                         sluice_error* err) const noexcept {
    auto& endpoints = host_->event_side().endpoints;
    // What the plugin says of the endpoint while it attaches is already heard.
    if (!endpoints
             .try_emplace(record.info.id,
                          AttachedEndpoint{record.info.base_url, record.authorization, &record})
             .second) {
        return report(err, SLUICE_E_INVALID, "two base URLs have the same endpoint id");
    }
    if ((watch & SLUICE_WATCH_KV) != 0) {
        // An adapter starts with an empty inventory and hears everything once more: what an
        // attachment before this one told would be counted twice.
        runtime_.sink().reset(record.info.id, SLUICE_ANY);
    }
    sluice_status status = SLUICE_E_STATE;
    const bool entered = host_->enter_event(
        0, [&] { status = judge(engine().attach(self_, &record.endpoint, watch, out, err), err); });
    if (!entered) {
        (void)report(err, SLUICE_E_STATE, "the plugin instance is not active");
    } else if (status == SLUICE_OK && *out == nullptr) {
        host_->count_defect("attach gave no attachment");
        status = report(err, SLUICE_E_INTERNAL, "attach gave no attachment");
    }
    if (status != SLUICE_OK) {
        endpoints.erase(record.info.id);
        return status < 0 ? status : sluice_status{SLUICE_E_INTERNAL};
    }
    return SLUICE_OK;
}

void EngineInstance::detach_now(const AttachmentRecord& record,
                                sluice_attachment* at) const noexcept {
    // A faulted instance gets no call but deactivate and destroy.
    host_->enter_event(0, [&] { engine().detach(self_, at); });
    host_->event_side().endpoints.erase(record.info.id);
}

void EngineInstance::authorize(const AttachmentRecord& record) const {
    auto& endpoints = host_->event_side().endpoints;
    if (const auto it = endpoints.find(record.info.id); it != endpoints.end()) {
        it->second.authorization = record.authorization;
    }
}

sluice_status EngineInstance::plan(const sluice_request& request, sluice_plan& out,
                                   sluice_error* err) const noexcept {
    if (engine().plan == nullptr) {
        return report(err, SLUICE_E_UNSUPPORTED, "this engine does not split requests");
    }
    return request_call(request.body.len, err, [&](sluice_error* words) {
        return engine().plan(self_, &request, &out, words);
    });
}

sluice_status EngineInstance::build_leg(const sluice_leg& leg, sluice_leg_out& out,
                                        sluice_error* err) const noexcept {
    if (engine().build_leg == nullptr) {
        return report(err, SLUICE_E_UNSUPPORTED, "this engine edits no requests");
    }
    const std::size_t bytes = leg.request == nullptr ? 0 : leg.request->body.len;
    return request_call(bytes, err, [&](sluice_error* words) {
        return engine().build_leg(self_, &leg, &out, words);
    });
}

sluice_status EngineInstance::on_reply(const sluice_leg& leg, const sluice_reply& reply,
                                       sluice_reply_out& out, sluice_error* err) const noexcept {
    if (engine().on_reply == nullptr) {
        return report(err, SLUICE_E_UNSUPPORTED, "this engine judges no replies");
    }
    return request_call(reply.body.len, err, [&](sluice_error* words) {
        return engine().on_reply(self_, &leg, &reply, &out, words);
    });
}

Result<std::size_t> EngineInstance::hash_blocks(const sluice_hash_input& in,
                                                std::span<std::uint64_t> out) const {
    if (engine().hash_blocks == nullptr) {
        return Error{Code::Unsupported, "this engine has no block hashes of its own"};
    }
    auto err = empty_error();
    std::uint32_t num = 0;
    const auto cap = static_cast<std::uint32_t>(std::min<std::size_t>(out.size(), UINT32_MAX));
    const sluice_status status =
        request_call(in.num_tokens * sizeof(std::uint32_t), &err, [&](sluice_error* words) {
            return engine().hash_blocks(self_, &in, out.data(), cap, &num, words);
        });
    if (status != SLUICE_OK) {
        return to_error(status, err);
    }
    if (num > cap) {
        host_->count_defect("hash_blocks claims more than it was given room for");
        return Error{Code::Internal, "the plugin wrote past the room it was given"};
    }
    return std::size_t{num};
}

bool EngineInstance::hears_served() const noexcept {
    return SLUICE_HAS(sluice_engine, &engine(), on_served) && engine().on_served != nullptr;
}

void EngineInstance::on_served(sluice_attachment* at, const sluice_served& served) const noexcept {
    if (!hears_served()) {
        return;
    }
    // It has nothing to answer, so nothing can fail.
    (void)request_call(0, nullptr, [&](sluice_error*) -> sluice_status {
        engine().on_served(self_, at, &served);
        return SLUICE_OK;
    });
}

}  // namespace sluice::plugin
