// What the machine says about this process, itself and a file system.
//
// Threads: any. Reads /proc; nothing of other processes is looked at.
// Errors:  what cannot be read is left empty or 0.
// Source:  proc(5), statvfs(3); os-release(5).
#pragma once
#include <cstdint>
#include <string>

namespace sluice::admin {

struct ProcessInfo {
    std::uint64_t pid = 0;
    std::string user;  // numeric id when it has no name
    std::string command;
    std::string status;  // "R (running)"
    std::int64_t priority = 0;
    std::int64_t nice = 0;
    std::uint64_t virtual_bytes = 0;
    std::uint64_t resident_bytes = 0;
    std::uint64_t shared_bytes = 0;
    std::uint64_t threads = 0;
    std::uint64_t open_files = 0;
    double cpu_seconds = 0;     // user and system, since the start
    double uptime_seconds = 0;  // since the start
    double memory_ratio = 0;    // resident of the machine's
};

struct DeviceInfo {
    std::string host_name;
    std::string machine_id;
    std::string boot_id;
    std::string os;
    std::string kernel;
    std::string architecture;
    double uptime_seconds = 0;
    std::uint64_t cores = 0;
    std::uint64_t memory_bytes = 0;
};

struct FileSystemInfo {
    std::string source;  // device
    std::string type;
    std::string mounted_on;
    std::uint64_t size_bytes = 0;
    std::uint64_t used_bytes = 0;
    std::uint64_t available_bytes = 0;
    double used_ratio = 0;
};

ProcessInfo process_info();
DeviceInfo device_info();
// Of the file system that holds `path`, or its folder when it is not there yet.
FileSystemInfo file_system_info(const std::string& path);

}  // namespace sluice::admin
