// What would keep a start from going well.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/app/settings.hpp"
#include "core/net/address.hpp"
#include "core/plugin/registry.hpp"

namespace sluice::app {
namespace {

namespace fs = std::filesystem;

fs::path program_directory() {
    std::error_code ignored;
    return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

// Another port, so that the answer is the same while a gateway runs on it.
std::string why_not_ours(const std::string& host) {
    const auto address = net::Address::parse_ip(host, 0);
    if (!address) {
        return address.error().what;
    }
    sockaddr_storage name{};
    const socklen_t bytes = address->to_sockaddr(name);
    const int fd = ::socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return std::strerror(errno);
    }
    const bool is_bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&name), bytes) == 0;
    const std::string why = is_bound ? "" : std::strerror(errno);
    ::close(fd);
    return why;
}

std::string why_not_a_folder(const fs::path& path, int access) {
    std::error_code failed;
    if (!fs::is_directory(path, failed)) {
        return path.string() + ": no such folder";
    }
    if (::access(path.c_str(), access) != 0) {
        return path.string() + ": " + std::strerror(errno);
    }
    return "";
}

std::string why_not_a_state(const std::string& file) {
    const fs::path path(file);
    std::error_code failed;
    if (fs::exists(path, failed)) {
        if (!fs::is_regular_file(path, failed)) {
            return file + ": not a regular file";
        }
        if (::access(file.c_str(), R_OK | W_OK) != 0) {
            return file + ": " + std::strerror(errno);
        }
    }
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    return why_not_a_folder(folder, R_OK | W_OK | X_OK);
}

}  // namespace

std::vector<std::string> plugin_directories(const Settings& settings) {
    std::vector<std::string> out;
    std::error_code ignored;
    const fs::path beside = program_directory() / ".." / "lib" / "sluice" / "plugins";
    if (fs::is_directory(beside, ignored)) {
        out.push_back(fs::canonical(beside, ignored).string());
    }
    for (const std::string& dir : plugin::default_plugin_directories()) {
        out.push_back(dir);
    }
    out.insert(out.end(), settings.plugin_dirs.begin(), settings.plugin_dirs.end());
    return out;
}

std::vector<std::string> problems(const Settings& settings) {
    std::vector<std::string> out;
    const auto note = [&out](const std::string& setting, const std::string& why) {
        if (!why.empty()) {
            out.push_back(setting + ": " + why);
        }
    };
    note("[api] listen", why_not_ours(settings.api_host));
    if (const Status judged = admin::check_config(api_config(settings)); !judged) {
        note("[api] token_file", judged.error().what);
    }
    note("[state] path", why_not_a_state(settings.state_file));
    // The built-in folder may be missing: a gateway without KV-exact rules needs none.
    if (settings.tokenizers_dir != Settings().tokenizers_dir) {
        note("[tokenizers] path", why_not_a_folder(settings.tokenizers_dir, R_OK | X_OK));
    }
    for (const std::string& dir : settings.plugin_dirs) {
        note("[plugins] path", why_not_a_folder(dir, R_OK | X_OK));
    }
    if (const auto defaults = rule_defaults(settings); !defaults) {
        note("[rules]", defaults.error().what);
    }
    return out;
}

}  // namespace sluice::app
