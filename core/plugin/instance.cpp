#include "core/plugin/instance.hpp"

#include "core/base/log.hpp"
#include "core/plugin/control_queue.hpp"
#include "core/plugin/host_context.hpp"
#include "core/plugin/runtime.hpp"
#include "core/plugin/sdk_text.hpp"

namespace sluice::plugin {

void InstanceDeleter::operator()(Instance* instance) const {
    runtime->control().post([instance] { delete instance; });
}

Instance::Instance(Runtime& runtime, PluginPtr plugin, InstanceSpec spec)
    : runtime_(runtime),
      plugin_(std::move(plugin)),
      host_(std::make_shared<HostContext>(runtime, plugin_, spec.name, spec.on_fault)),
      spec_(std::move(spec)) {
    runtime_.remember(host_);
}

Instance::~Instance() {
    deactivate();
    if (!host_->close()) {
        // Better a loss of memory than plugin code without its instance.
        runtime_.keep(std::move(host_));
        return;
    }
    if (self_ != nullptr) {
        const std::lock_guard lock(plugin_->file_mutex());
        const Crossing crossing(Tag::Control);
        self_->destroy(self_);
    }
}

Status Instance::create(const char* extension_id, std::size_t min_table_size) {
    if (!plugin_->descriptor().provides_extension(extension_id)) {
        return Error{Code::Unsupported,
                     plugin_->id() + " does not provide " + std::string(extension_id)};
    }
    auto err = empty_error();
    sluice_status status = SLUICE_OK;
    sluice_instance* made = nullptr;
    {
        const std::lock_guard lock(plugin_->file_mutex());
        const Crossing crossing(Tag::Control);
        status = plugin_->entry().create(host_->table(), plugin_->id().c_str(),
                                         borrow(spec_.config), &made, &err);
    }
    if (status != SLUICE_OK) {
        return to_error(status, err).at(plugin_->id());
    }
    const auto broken = [&](const char* what) {
        host_->count_defect(what);
        return Error{Code::Internal, plugin_->id() + ": " + what};
    };
    if (made == nullptr || !SLUICE_HAS(sluice_instance, made, query) || made->destroy == nullptr ||
        made->activate == nullptr || made->deactivate == nullptr || made->query == nullptr) {
        // Without a usable destroy it is left where it is.
        return broken("create gave no complete instance");
    }
    self_ = made;
    table_ = self_->query(self_, extension_id);
    if (table_ == nullptr || *static_cast<const std::uint32_t*>(table_) < min_table_size) {
        table_ = nullptr;
        return broken("the extension it provides is missing or too short");
    }
    if (is_faulted()) {
        return Error{Code::Unavailable, plugin_->id() + ": " + fault_text()};
    }
    return {};
}

Status Instance::activate() {
    auto err = empty_error();
    sluice_status status = SLUICE_OK;
    host_->begin_activation();
    {
        const std::lock_guard lock(plugin_->file_mutex());
        const Crossing crossing(Tag::Control);
        status = self_->activate(self_, &err);
    }
    if (status != SLUICE_OK) {
        (void)host_->close();  // said there; the destructor asks again
        return to_error(status, err).at(plugin_->id());
    }
    was_activated_ = true;
    host_->end_activation();
    if (is_faulted()) {
        return Error{Code::Unavailable, plugin_->id() + ": " + fault_text()};
    }
    return {};
}

void Instance::deactivate() {
    if (!was_activated_) {
        return;
    }
    was_activated_ = false;
    // The event thread goes on serving the instance until this returns: its deactivate() may wait
    // for something to end there.
    const std::lock_guard lock(plugin_->file_mutex());
    const Crossing crossing(Tag::Control);
    self_->deactivate(self_);
}

const std::string& Instance::name() const noexcept {
    return spec_.name;
}

bool Instance::is_active() const noexcept {
    return host_->is_active();
}

bool Instance::is_faulted() const noexcept {
    return host_->phase() == HostContext::Phase::Faulted;
}

std::string Instance::fault_text() const {
    return host_->fault_text();
}

std::uint64_t Instance::defects() const noexcept {
    return host_->defects();
}

const void* Instance::query(const char* extension_id) const {
    return self_ == nullptr ? nullptr : self_->query(self_, extension_id);
}

sluice_status Instance::judge(sluice_status status, const sluice_error* err) const noexcept {
    const sluice_status known = known_status(status);
    if (known == SLUICE_E_INTERNAL) {
        host_->count_internal(err == nullptr ? std::string_view() : text_of(*err));
    }
    return known;
}

}  // namespace sluice::plugin
