#include "core/plugin/file_checks.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace sluice::plugin {
namespace {

constexpr std::size_t kMaxFiles = 256;

std::string errno_text() {
    return std::strerror(errno);
}

// Empty when fine.
std::string trust_problem(const struct stat& s) {
    if ((s.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return "writable by group or others";
    }
    if (s.st_uid != 0 && s.st_uid != ::geteuid()) {
        return "owned by user " + std::to_string(s.st_uid) +
               ", neither root nor the gateway's user";
    }
    return {};
}

std::string real_path(const std::string& path) {
    std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
    return real ? std::string(real.get()) : std::string();
}

Candidate examine(const std::string& directory, const std::string& real_directory,
                  const std::string& name) {
    Candidate c;
    c.path = directory + "/" + name;
    c.real_path = real_path(c.path);
    if (c.real_path.empty()) {
        c.refusal = "cannot be resolved: " + errno_text();
        return c;
    }
    if (c.real_path.substr(0, c.real_path.rfind('/')) != real_directory) {
        c.refusal = "leads out of its directory";
        return c;
    }
    struct stat s{};
    if (::stat(c.real_path.c_str(), &s) != 0) {
        c.refusal = "cannot be examined: " + errno_text();
        return c;
    }
    c.identity = {c.real_path, static_cast<std::uint64_t>(s.st_size),
                  static_cast<std::int64_t>(s.st_mtim.tv_sec) * 1'000'000'000 + s.st_mtim.tv_nsec,
                  s.st_ino};
    c.refusal = S_ISREG(s.st_mode) ? trust_problem(s) : "not a regular file";
    return c;
}

}  // namespace

Result<std::vector<Candidate>> list_plugin_files(const std::string& directory) {
    const std::string real_directory = real_path(directory);
    struct stat s{};
    if (real_directory.empty() || ::stat(real_directory.c_str(), &s) != 0) {
        return Error{Code::NotFound, directory + ": " + errno_text()};
    }
    if (!S_ISDIR(s.st_mode)) {
        return Error{Code::Invalid, directory + ": not a directory"};
    }
    if (const std::string problem = trust_problem(s); !problem.empty()) {
        return Error{Code::Invalid, directory + ": " + problem};
    }
    std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(real_directory.c_str()), &::closedir);
    if (!dir) {
        return Error{Code::Io, directory + ": " + errno_text()};
    }
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(dir.get())) {
        const std::string name = entry->d_name;
        if (name.size() > 3 && name.ends_with(".so") && name.front() != '.') {
            names.push_back(name);
        }
    }
    std::sort(names.begin(), names.end());
    if (names.size() > kMaxFiles) {
        return Error{Code::Limit,
                     directory + ": more than " + std::to_string(kMaxFiles) + " plugin files"};
    }
    std::vector<Candidate> out;
    out.reserve(names.size());
    for (const std::string& name : names) {
        out.push_back(examine(directory, real_directory, name));
    }
    return out;
}

}  // namespace sluice::plugin
