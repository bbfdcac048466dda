#include "core/admin/host_info.hpp"

#include <pwd.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace sluice::admin {
namespace {

namespace fs = std::filesystem;

std::string first_line(const char* path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// "VmRSS:     123 kB" of /proc/self/status.
std::string status_value(const std::string& name) {
    std::ifstream file("/proc/self/status");
    std::string line;
    while (std::getline(file, line)) {
        if (line.starts_with(name + ":")) {
            const std::size_t at = line.find_first_not_of(" \t", name.size() + 1);
            return at == std::string::npos ? "" : line.substr(at);
        }
    }
    return "";
}

std::uint64_t status_bytes(const std::string& name) {
    std::istringstream text(status_value(name));
    std::uint64_t kibibytes = 0;
    text >> kibibytes;
    return kibibytes * 1024;
}

std::string user_name() {
    passwd entry{};
    passwd* found = nullptr;
    std::array<char, 4096> buffer{};
    if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
        found != nullptr) {
        return entry.pw_name;
    }
    return std::to_string(::geteuid());
}

// Fields of /proc/self/stat from the third on; the second, the command, may hold blanks.
std::vector<std::int64_t> stat_fields() {
    const std::string line = first_line("/proc/self/stat");
    const std::size_t end = line.rfind(')');
    std::vector<std::int64_t> out;
    if (end == std::string::npos) {
        return out;
    }
    std::istringstream text(line.substr(end + 1));
    std::string word;
    text >> word;  // the state, a letter
    out.push_back(0);
    std::int64_t number = 0;
    while (text >> number) {
        out.push_back(number);
    }
    return out;
}

double uptime_seconds() {
    std::istringstream text(first_line("/proc/uptime"));
    double seconds = 0;
    text >> seconds;
    return seconds;
}

std::string os_name() {
    std::ifstream file("/etc/os-release");
    std::string line;
    constexpr std::string_view kName = "PRETTY_NAME=";
    while (std::getline(file, line)) {
        if (line.starts_with(kName)) {
            std::string value = line.substr(kName.size());
            if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
                value = value.substr(1, value.size() - 2);
            }
            return value;
        }
    }
    return "";
}

std::string real_path(const std::string& path) {
    std::error_code failed;
    fs::path at = fs::weakly_canonical(path, failed);
    while (!failed && !fs::exists(at, failed) && at.has_relative_path()) {
        at = at.parent_path();
    }
    return at.string();
}

}  // namespace

ProcessInfo process_info() {
    ProcessInfo out;
    out.pid = static_cast<std::uint64_t>(::getpid());
    out.user = user_name();
    out.command = first_line("/proc/self/comm");
    out.status = status_value("State");
    out.virtual_bytes = status_bytes("VmSize");
    out.resident_bytes = status_bytes("VmRSS");
    out.shared_bytes = status_bytes("RssFile") + status_bytes("RssShmem");
    // proc(5): utime 14, stime 15, priority 18, nice 19, num_threads 20, starttime 22.
    const std::vector<std::int64_t> fields = stat_fields();
    const auto field = [&fields](std::size_t number) {
        return number - 3 < fields.size() ? fields[number - 3] : 0;
    };
    const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
    out.cpu_seconds = static_cast<double>(field(14) + field(15)) / ticks;
    out.priority = field(18);
    out.nice = field(19);
    out.threads = static_cast<std::uint64_t>(field(20));
    out.uptime_seconds = uptime_seconds() - static_cast<double>(field(22)) / ticks;
    std::error_code ignored;
    for (auto it = fs::directory_iterator("/proc/self/fd", ignored); it != fs::directory_iterator();
         it.increment(ignored)) {
        ++out.open_files;
    }
    struct sysinfo machine{};
    if (::sysinfo(&machine) == 0 && machine.totalram != 0) {
        out.memory_ratio = static_cast<double>(out.resident_bytes) /
                           (static_cast<double>(machine.totalram) * machine.mem_unit);
    }
    return out;
}

DeviceInfo device_info() {
    DeviceInfo out;
    utsname name{};
    if (::uname(&name) == 0) {
        out.host_name = name.nodename;
        out.kernel = name.release;
        out.architecture = name.machine;
    }
    out.os = os_name();
    out.machine_id = first_line("/etc/machine-id");
    out.boot_id = first_line("/proc/sys/kernel/random/boot_id");
    out.uptime_seconds = uptime_seconds();
    out.cores = std::thread::hardware_concurrency();
    struct sysinfo machine{};
    if (::sysinfo(&machine) == 0) {
        out.memory_bytes = static_cast<std::uint64_t>(machine.totalram) * machine.mem_unit;
    }
    return out;
}

FileSystemInfo file_system_info(const std::string& path) {
    FileSystemInfo out;
    const std::string at = real_path(path);
    struct statvfs room{};
    if (::statvfs(at.c_str(), &room) == 0) {
        out.size_bytes = static_cast<std::uint64_t>(room.f_blocks) * room.f_frsize;
        out.used_bytes = (static_cast<std::uint64_t>(room.f_blocks) - room.f_bfree) * room.f_frsize;
        out.available_bytes = static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize;
        const std::uint64_t usable = out.used_bytes + out.available_bytes;
        out.used_ratio =
            usable == 0 ? 0 : static_cast<double>(out.used_bytes) / static_cast<double>(usable);
    }
    // The longest mount point that leads to the path; of several on one point the last is seen.
    std::ifstream mounts("/proc/self/mounts");
    std::string source;
    std::string point;
    std::string type;
    std::string rest;
    while (mounts >> source >> point >> type && std::getline(mounts, rest)) {
        const bool leads_there =
            point == "/" || at == point ||
            (at.starts_with(point) && at.size() > point.size() && at[point.size()] == '/');
        if (leads_there && point.size() >= out.mounted_on.size()) {
            out.source = source;
            out.mounted_on = point;
            out.type = type;
        }
    }
    return out;
}

}  // namespace sluice::admin
