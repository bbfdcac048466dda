// What engines' agents pushed about their load: the newest report of each endpoint.
//
// Threads: any.
// Errors:  put() is false when the board is full of other endpoints.
// Limits:  kMaxWorkers endpoints; reports are lost at a restart.
// Source:  the management contract's worker metrics.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace sluice::admin {

struct WorkerReport {
    std::string endpoint;  // ip:port
    std::uint64_t queued_requests = 0;
    std::uint64_t swapped_requests = 0;
    double kv_cache_usage_percent = 0;
    std::uint64_t gpu_blocks = 0;
    std::uint64_t at_us = 0;  // wall clock, as the agent says
};

class WorkerBoard {
public:
    static constexpr std::size_t kMaxWorkers = 4096;

    bool put(WorkerReport report) {
        const std::lock_guard lock(mu_);
        if (reports_.size() >= kMaxWorkers && !reports_.contains(report.endpoint)) {
            return false;
        }
        std::string endpoint = report.endpoint;
        reports_.insert_or_assign(std::move(endpoint), std::move(report));
        return true;
    }
    void clear() {
        const std::lock_guard lock(mu_);
        reports_.clear();
    }
    std::vector<WorkerReport> reports() const {
        const std::lock_guard lock(mu_);
        std::vector<WorkerReport> out;
        out.reserve(reports_.size());
        for (const auto& [endpoint, report] : reports_) {
            out.push_back(report);
        }
        return out;
    }

private:
    mutable std::mutex mu_;
    std::map<std::string, WorkerReport> reports_;  // guarded by mu_
};

}  // namespace sluice::admin
