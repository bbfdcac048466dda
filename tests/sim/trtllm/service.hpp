// The simulated trtllm-serve: its model, its engine cores, and what every endpoint shares.
//
// Owns:    engines, the event ring and its desk, faults, adapters, the record of requests, and the
//          port where other engines read KV.
// Threads: handle() from connection threads; everything shared has its own lock.
// Errors:  start() says what cannot be had.
// Limits:  kMaxAdapters LoRA adapters, kMaxFinished remembered requests.
#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "tests/sim/engine/fault.hpp"
#include "tests/sim/engine/record.hpp"
#include "tests/sim/engine/text_model.hpp"
#include "tests/sim/support/exchange.hpp"
#include "tests/sim/support/http_server.hpp"
#include "tests/sim/trtllm/drain_desk.hpp"
#include "tests/sim/trtllm/engine.hpp"
#include "tests/sim/trtllm/options.hpp"

namespace sluice::sim::trtllm {

class Service {
public:
    static constexpr std::size_t kMaxAdapters = 1024;
    static constexpr std::size_t kMaxFinished = 1000;

    explicit Service(Options options);

    Status start();
    void handle(http::Request& request, http::Exchange& exchange);

    const Options& options() const noexcept { return options_; }
    const TextModel& model() const noexcept { return *model_; }
    const std::vector<std::unique_ptr<Engine>>& engines() const noexcept { return engines_; }
    FaultBoard& faults() noexcept { return faults_; }
    Record& record() noexcept { return record_; }
    DrainDesk& desk() noexcept { return desk_; }
    const EventRing& ring() const noexcept { return ring_; }
    void add_events(std::vector<std::string> events) { ring_.append(std::move(events)); }

    // The rank of the next request: the least loaded one, in turn among equals.
    Engine& pick();
    // The adapter with this task id; null when there are too many.
    const Lora* adapter(std::int64_t task_id, const std::string& name);
    // A number for the next generation, as the executor counts.
    std::uint64_t next_id() noexcept { return ++last_id_; }

    // Reads of what a reader takes from others, or what costs the engine a request.
    struct Reads {
        std::atomic<std::uint64_t> metrics{0};
        std::atomic<std::uint64_t> perf_metrics{0};
        std::atomic<std::uint64_t> health_generate{0};
        std::atomic<std::uint64_t> prometheus{0};
    };
    Reads& reads() noexcept { return reads_; }
    bool transfers() const noexcept { return options_.has_transceiver; }
    // An opaque state no other request has.
    std::string new_state() const;
    // What generation legs read elsewhere.
    struct Pulls {
        std::atomic<std::uint64_t> done{0};
        std::atomic<std::uint64_t> failed{0};
        std::atomic<std::uint64_t> foreign{0};  // of another prompt than the request's
    };
    Pulls& pulls() noexcept { return pulls_; }
    const Pulls& pulls() const noexcept { return pulls_; }
    // Remembered for /perf_metrics, when it is on.
    void note_finished(std::uint64_t id);
    std::vector<std::uint64_t> take_finished();
    // Engine iterations since the last call.
    std::uint64_t take_iterations();

private:
    void serve_pull(const http::Request& request, http::Exchange& exchange);

    const Options options_;
    std::unique_ptr<TextModel> model_;
    EventRing ring_;
    std::vector<std::unique_ptr<Engine>> engines_;  // one a rank
    DrainDesk desk_;
    FaultBoard faults_;
    Record record_;
    Reads reads_;
    Pulls pulls_;
    const std::string transfer_id_;  // of this process
    std::atomic<std::uint64_t> turn_{0};
    std::atomic<std::uint64_t> last_id_{0};
    std::mutex mu_;
    std::deque<Lora> adapters_;           // guarded by mu_; addresses stay
    std::deque<std::uint64_t> finished_;  // guarded by mu_
    std::uint64_t iterations_read_ = 0;   // guarded by mu_
    http::Server transfers_;              // last: it uses the engines
};

// Endpoints, by topic.
void handle_completions(Service& s, http::Request& request, http::Exchange& exchange);
void handle_chat(Service& s, http::Request& request, http::Exchange& exchange);
void handle_health_generate(Service& s, http::Exchange& exchange);
// What a build tells of itself; 404 for what it does not have.
http::Response handle_info(Service& s, const http::Request& request);
// /sim/...: what the simulator offers beside the engine.
http::Response handle_control(Service& s, const http::Request& request);

}  // namespace sluice::sim::trtllm
