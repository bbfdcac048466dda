#include "core/app/daemon.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "core/admin/switches.hpp"
#include "core/base/clock.hpp"
#include "core/flow/scrape.hpp"

namespace sluice::app {

namespace {

// Beyond the drain time-out: until clients have taken what they are told.
constexpr std::uint64_t kLastWordsUs = 1'000'000;

// Each proxied stream takes two descriptors; the hard limit is what the operator allows.
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) {
        return;
    }
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        log::warn("descriptor limit cannot be raised", {{"limit", limit.rlim_max}});
    }
}

}  // namespace

Daemon::Daemon(Settings settings) : settings_(std::move(settings)) {}

Daemon::~Daemon() {
    stop();
}

Status Daemon::open_state() {
    auto opened = state::open_sqlite({.path = settings_.state_file});
    if (!opened) {
        return std::move(opened).error().at(settings_.state_file);
    }
    store_ = std::move(opened->store);
    boot_.is_database_found = !opened->created;
    if (opened->set_aside) {
        boot_.set_aside = opened->set_aside->path;
        log::error("database was damaged and is set aside",
                   {{"path", opened->set_aside->path}, {"reason", opened->set_aside->why}});
    }
    return {};
}

Status Daemon::start_workers() {
    unsigned count = settings_.workers;
    if (count == 0) {
        count = std::max(1U, std::thread::hardware_concurrency());
    }
    for (unsigned i = 0; i < count; ++i) {
        workers_.push_back(std::make_unique<flow::Worker>(i, *shared_));
        if (Status started = workers_.back()->start(); !started) {
            return started;
        }
    }
    return {};
}

void Daemon::start_plugins() {
    plugin::LoaderOptions options;
    options.directories = plugin_directories(settings_);
    registry_ = std::make_unique<plugin::Registry>(options);
    registry_->scan();
    for (const plugin::FileReport& file : registry_->reports()) {
        if (file.state != plugin::FileState::Loaded) {
            log::warn(
                "plugin file is not used",
                {{"path", file.path}, {"state", to_string(file.state)}, {"reason", file.reason}});
        }
    }
}

Status Daemon::start() {
    raise_descriptor_limit();
    is_started_ = true;
    if (const auto wrong = problems(settings_); !wrong.empty()) {
        return Error{Code::Invalid, wrong.front()};
    }
    auto defaults = rule_defaults(settings_);
    if (!defaults) {
        return std::move(defaults).error();
    }
    if (Status opened = open_state(); !opened) {
        return opened;
    }
    start_plugins();
    shared_ = std::make_unique<flow::Shared>(settings_.tokenizers_dir);
    shared_->max_prefill_reply_bytes = settings_.max_prefill_reply;
    if (Status started = start_workers(); !started) {
        return started;
    }
    events_ = std::make_unique<flow::EngineEvents>([this](const std::vector<fleet::Model>& models) {
        for (const fleet::Model& model : models) {
            const std::string name = model.is_lora ? model.parent : model.name;
            // Refused when the queue is full: the first request loads it then.
            (void)shared_->compute.post([this, name] { (void)shared_->library.find(name); });
        }
    });
    plugin::RuntimeOptions runtime_options;
    runtime_options.version = kVersion;
    runtime_ = std::make_unique<plugin::Runtime>(*events_, runtime_options);
    if (Status started = runtime_->start(); !started) {
        return started;
    }
    prober_ = std::make_unique<fleet::Prober>();
    if (Status started = prober_->start(); !started) {
        return started;
    }
    if (Status resumed = resume_maintenance(); !resumed) {
        return resumed;
    }
    conductor_ = std::make_unique<flow::Conductor>(*shared_, workers_, *registry_, *runtime_,
                                                   *events_, *prober_);
    book_ = std::make_unique<rules::RuleBook>(*store_, *conductor_, *defaults);
    if (Status loaded = book_->load(); !loaded) {
        return loaded;
    }
    for (const rules::Dormant& rule : book_->dormant()) {
        log::error("stored rule is not in force",
                   {{"rule", rule.id}, {"reason", rule.why.message}});
    }
    log::set_level(admin::log_switch(*book_, settings_.log_level).level);
    live_ = std::make_unique<Live>(*shared_, *conductor_, *registry_, *book_, workers_, settings_,
                                   boot_);
    scrape_source_ = metrics::registry().add_source(
        [shared = shared_.get(), live = live_.get()](std::vector<metrics::Family>& out) {
            flow::scrape(*shared->directory.get(), out);
            live->scrape(out);
        });
    api_ = std::make_unique<admin::ApiServer>(api_config(settings_), *book_, *live_);
    if (Status started = api_->start(); !started) {
        return started;
    }
    log::info("ready", {{"version", kVersion},
                        {"api", settings_.api_host + ":" + std::to_string(api_->port())},
                        {"rules", book_->table()->rules().size()},
                        {"workers", workers_.size()}});
    return {};
}

void Daemon::tick() {
    conductor_->tick();
    // A restored snapshot may say something else than before. What is stored is looked at again:
    // the switch may have been turned between look and store.
    bool is_on = false;
    do {
        is_on = admin::maintenance(*book_).is_on;
        shared_->is_refusing_new.store(is_on);
    } while (admin::maintenance(*book_).is_on != is_on);
}

// Before a listener is open: a gateway that was put into maintenance takes no request at its start.
Status Daemon::resume_maintenance() {
    const auto contents = store_->load();
    if (!contents) {
        return Status(contents.error()).error().at("stored settings");
    }
    const auto stored = contents->settings.find(std::string(admin::kMaintenanceSetting));
    if (stored != contents->settings.end() && admin::parse_maintenance(stored->second).is_on) {
        shared_->is_refusing_new.store(true, std::memory_order_relaxed);
        log::warn("maintenance is on: requests are refused until it ends");
    }
    return {};
}

void Daemon::reload_refused(const std::string& why) {
    live_->reload_refused(why);
}

// Everything is judged before anything changes.
void Daemon::reload(const Settings& next) {
    const auto defaults = rule_defaults(next);
    if (!defaults) {
        live_->reload_refused(defaults.error().what);
        return;
    }
    if (const Status staged = api_->stage(api_config(next)); !staged) {
        live_->reload_refused(staged.error().what);
        return;
    }
    if (const auto refusal = book_->set_defaults(*defaults)) {
        live_->reload_refused("[rules]: " + refusal->message);
        return;
    }
    api_->commit_staged();
    log::set_level(admin::log_switch(*book_, next.log_level).level);
    shared_->library.clear();
    take_over(next);
    live_->reloaded(settings_);
    log::info("configuration reloaded", {{"log_level", log::to_string(next.log_level)}});
}

// Settings that need a restart stay as they are, and the log names them.
void Daemon::take_over(Settings next) {
    const std::vector<Shown> wanted = shown(next);
    for (const Shown& now : shown(settings_)) {
        for (const Shown& one : wanted) {
            if (one.section == now.section && one.key == now.key && now.needs_restart &&
                one.value != now.value) {
                log::warn("a changed setting needs a restart",
                          {{"setting", "[" + now.section + "] " + now.key},
                           {"in_force", now.value},
                           {"configured", one.value}});
            }
        }
    }
    next.api_host = settings_.api_host;
    next.api_port = settings_.api_port;
    next.state_file = settings_.state_file;
    next.tokenizers_dir = settings_.tokenizers_dir;
    next.plugin_dirs = settings_.plugin_dirs;
    next.workers = settings_.workers;
    next.io = settings_.io;
    settings_ = std::move(next);
}

void Daemon::stop() {
    if (!is_started_) {
        return;
    }
    is_started_ = false;
    if (live_) {
        live_->drain();
    }
    for (const auto& worker : workers_) {
        worker->drain();
    }
    const std::uint64_t deadline =
        now_us() + std::uint64_t{settings_.drain_timeout_sec} * 1'000'000U;
    const auto is_busy = [&] {
        return std::any_of(workers_.begin(), workers_.end(),
                           [](const auto& worker) { return worker->counts().exchanges > 0; });
    };
    while (now_us() < deadline && is_busy()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const bool is_cut = is_busy();
    if (is_cut) {
        log::warn("drain time-out: requests that are left end with an error");
        for (const auto& worker : workers_) {
            worker->speak_last_words();
        }
    }
    const std::uint64_t heard = now_us() + kLastWordsUs;
    while (is_cut && now_us() < heard && is_busy()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (api_) {
        api_->stop();
    }
    if (scrape_source_ != 0) {
        metrics::registry().remove_source(scrape_source_);
    }
    // Jobs report to the loops that asked for them, so they end first.
    if (shared_) {
        shared_->compute.stop();
    }
    // Requests end before what they use: workers, then rules with their plugins, then the threads
    // plugins run on.
    for (const auto& worker : workers_) {
        worker->stop();
    }
    api_.reset();
    live_.reset();
    book_.reset();
    conductor_.reset();
    if (prober_) {
        prober_->stop();
    }
    if (runtime_) {
        runtime_->stop();
    }
    runtime_.reset();
    events_.reset();
    workers_.clear();
    shared_.reset();
    prober_.reset();
    store_.reset();
    log::info("stopped");
}

}  // namespace sluice::app
