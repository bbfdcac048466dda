// sluice-sim: simulated engines for tests, demonstrations and benches.
#include <pthread.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/sim/support/http_server.hpp"
#include "tests/sim/trtllm/options.hpp"
#include "tests/sim/trtllm/service.hpp"
#include "tests/sim/vllm/options.hpp"
#include "tests/sim/vllm/service.hpp"

namespace {

namespace vllm = sluice::sim::vllm;
namespace trtllm = sluice::sim::trtllm;

int fail(const sluice::Error& e) {
    std::fprintf(stderr, "sluice-sim: %s\n", e.what.c_str());
    return 2;
}

// Where events and replays of all ranks are to be had; "-" for none.
std::string addresses(const vllm::Service& s, bool replay) {
    std::string out;
    for (const auto& p : s.publishers()) {
        const std::string& one = replay ? p->replay_reachable() : p->reachable();
        out += (out.empty() ? "" : ",") + (one.empty() ? std::string("-") : one);
    }
    return out.empty() ? "-" : out;
}

std::string more_addresses(const vllm::Service& s) {
    return " pub=" + addresses(s, false) + " replay=" + addresses(s, true);
}
std::string more_addresses(const trtllm::Service&) {
    return {};
}

template <class Service, class Options>
int run(sluice::Result<Options> options) {
    if (!options) {
        return fail(options.error());
    }
    const std::string host = options->host;
    const std::uint16_t port = options->port;
    Service service(std::move(options).value());
    if (auto s = service.start(); !s) {
        return fail(s.error());
    }
    sluice::sim::http::Server server(host, port, [&service](auto& request, auto& exchange) {
        service.handle(request, exchange);
    });
    if (auto s = server.listen(); !s) {
        return fail(s.error());
    }
    std::printf("ready http=%s:%u%s\n", host.c_str(), unsigned{server.port()},
                more_addresses(service).c_str());
    std::fflush(stdout);

    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    int got = 0;
    sigwait(&ends, &got);
    std::_Exit(0);  // at once: a stopped engine takes no leave of its clients
}

// Every thread inherits the mask, so only sigwait() sees these.
void block_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
}

void raise_file_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);  // best effort: fewer connections otherwise
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string_view> args(argv + 1, argv + argc);
    const std::string_view engine = args.empty() ? "--help" : args[0];
    if (engine == "--help" || (args.size() > 1 && args[1] == "--help")) {
        for (const auto& [name, text] :
             {std::pair("vllm", vllm::usage()), std::pair("trtllm", trtllm::usage())}) {
            if (engine == "--help" || engine == name) {
                std::printf("%.*s", static_cast<int>(text.size()), text.data());
            }
        }
        return args.empty() ? 2 : 0;
    }
    if (engine != "vllm" && engine != "trtllm") {
        std::fprintf(stderr, "sluice-sim: unknown engine '%s' (vllm, trtllm)\n", argv[1]);
        return 2;
    }
    block_signals();
    raise_file_limit();
    const auto flags = std::span(args).subspan(1);
    return engine == "vllm" ? run<vllm::Service>(vllm::parse_options(flags))
                            : run<trtllm::Service>(trtllm::parse_options(flags));
}
