#include "core/flow/listeners.hpp"

#include "core/base/log.hpp"
#include "core/flow/vip.hpp"

namespace sluice::flow {
namespace {

bool is_same(const http::ServerLimits& a, const http::ServerLimits& b) noexcept {
    return a.header == b.header && a.body == b.body && a.client_idle == b.client_idle;
}

}  // namespace

std::string vip_text(const rules::ListenAddress& at) {
    const auto address = net::Address::parse_ip(at.ip, at.port);
    return address ? address->format() : at.ip + ":" + std::to_string(at.port);
}

Status Listeners::bind(const rules::ListenAddress& at, const http::ServerLimits& limits) {
    if (Status free = check_vip_is_free(at); !free) {
        return free;
    }
    for (std::size_t i = 0; i < workers_.size(); ++i) {
        if (Status opened = workers_[i]->open(at, limits); !opened) {
            for (std::size_t j = 0; j < i; ++j) {
                workers_[j]->close(at);
            }
            return opened;
        }
    }
    bound_.emplace(at, limits);
    return {};
}

void Listeners::close(const rules::ListenAddress& at) {
    for (const auto& worker : workers_) {
        worker->close(at);
    }
    bound_.erase(at);
}

Status Listeners::prepare(const rules::ListenAddress& at) {
    if (bound_.contains(at)) {
        return {};
    }
    Status bound = bind(at, {});
    if (bound) {
        prepared_.insert(at);
    }
    return bound;
}

void Listeners::abandon(const rules::ListenAddress& at) {
    if (prepared_.erase(at) > 0) {
        close(at);
    }
}

void Listeners::reconcile(const Directory& directory) {
    prepared_.clear();
    const auto is_gone = [&](const auto& entry) {
        return !directory.limits.contains(entry.first);
    };
    std::vector<rules::ListenAddress> gone;
    for (const auto& entry : bound_) {
        if (is_gone(entry)) {
            gone.push_back(entry.first);
        }
    }
    for (const rules::ListenAddress& at : gone) {
        close(at);
    }
    std::erase_if(unbound_, is_gone);
    for (const auto& [at, limits] : directory.limits) {
        const auto known = bound_.find(at);
        if (known == bound_.end()) {
            if (const Status status = bind(at, limits.server); status) {
                if (unbound_.erase(at) > 0) {
                    log::info("listener bound at last", {{"vip", vip_text(at)}});
                }
            } else {
                if (!unbound_.contains(at)) {
                    log::error("listener cannot be bound",
                               {{"vip", vip_text(at)}, {"reason", status.error().what}});
                }
                unbound_[at] = status.error().what;
            }
        } else if (!is_same(known->second, limits.server)) {
            known->second = limits.server;
            for (const auto& worker : workers_) {
                worker->set_limits(at, limits.server);
            }
        }
    }
}

std::vector<std::string> Listeners::unbound() const {
    std::vector<std::string> out;
    for (const auto& [at, why] : unbound_) {
        out.push_back(vip_text(at) + ": " + why);
    }
    return out;
}

}  // namespace sluice::flow
