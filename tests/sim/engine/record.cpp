#include "tests/sim/engine/record.hpp"

#include "tests/sim/support/json.hpp"

namespace sluice::sim {

void Record::add(const http::Request& request) {
    if (request.path.rfind("/sim/", 0) == 0) {
        return;
    }
    const std::lock_guard lock(mu_);
    entries_.push_back({request.method, request.target, request.headers,
                        request.body.substr(0, kMaxRecordedBody)});
    if (entries_.size() > kMaxRecorded) {
        entries_.pop_front();
    }
}

void Record::clear() {
    const std::lock_guard lock(mu_);
    entries_.clear();
}

std::string Record::json() const {
    const std::lock_guard lock(mu_);
    json::Writer w;
    w.open_array();
    for (const Entry& e : entries_) {
        w.open_object().field("method", e.method).field("target", e.target);
        w.key("headers").open_array();
        for (const auto& [key, value] : e.headers) {
            w.open_array().value(key).value(value).close_array();
        }
        w.close_array().field("body", e.body).close_object();
    }
    return w.close_array().take();
}

}  // namespace sluice::sim
