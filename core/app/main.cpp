// sluiced: reads its settings, runs the daemon in the foreground, obeys signals.
//
// SIGTERM and SIGINT drain and end with 0; a second one ends at once, by the signal. SIGHUP
// reloads. Exit codes: 1 a start that failed, 2 bad flags or configuration, also of --check.
#include <csignal>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "core/app/daemon.hpp"
#include "core/app/settings.hpp"
#include "core/base/log.hpp"

namespace {

constexpr std::time_t kTickSeconds = 5;

// Blocked in every thread, waited for in this one.
sigset_t block_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
        sigaddset(&set, signal);
    }
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ,
                SIG_IGN);  // a limit of file sizes is an error of the write, as a full disk
    return set;
}

// Who asks again does not want to wait for requests.
void let_signals_end_it() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int check(const sluice::app::Settings& settings) {
    const std::vector<std::string> wrong = sluice::app::problems(settings);
    for (const std::string& one : wrong) {
        std::fprintf(stderr, "sluiced: %s\n", one.c_str());
    }
    if (wrong.empty()) {
        std::printf("configuration is good\n");
    }
    return wrong.empty() ? 0 : 2;
}

void run(sluice::app::Daemon& daemon, const sigset_t& signals,
         const std::vector<std::string>& arguments) {
    while (true) {
        const timespec wait{kTickSeconds, 0};
        const int signal = ::sigtimedwait(&signals, nullptr, &wait);
        if (signal == SIGTERM || signal == SIGINT) {
            sluice::log::info("stopping", {{"signal", signal}});
            return;
        }
        if (signal == SIGHUP) {
            const auto next = sluice::app::read_settings(arguments);
            if (next) {
                daemon.reload(*next);
            } else {
                daemon.reload_refused(next.error().what);
            }
        }
        daemon.tick();
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const auto settings = sluice::app::read_settings(arguments);
    if (!settings) {
        std::fprintf(stderr, "sluiced: %s\n", settings.error().what.c_str());
        return 2;
    }
    if (settings->show_help) {
        std::fputs(sluice::app::usage_text().c_str(), stdout);
        return 0;
    }
    if (settings->show_version) {
        std::printf("sluiced %s\n", sluice::app::kVersion);
        return 0;
    }
    sluice::log::set_level(settings->log_level);
    if (settings->check_only) {
        return check(*settings);
    }
    const sigset_t signals = block_signals();
    sluice::app::Daemon daemon(*settings);
    if (const sluice::Status started = daemon.start(); !started) {
        std::fprintf(stderr, "sluiced: %s\n", started.error().what.c_str());
        return 1;
    }
    run(daemon, signals, arguments);
    let_signals_end_it();
    daemon.stop();
    return 0;
}
