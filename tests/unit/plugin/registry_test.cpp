#include "core/plugin/registry.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/plugin/file_checks.hpp"
#include "core/plugin/scan_child.hpp"
#include "tests/unit/plugin/support.hpp"

TEST_SUITE_BEGIN("plugin/registry");

using namespace sluice::plugin;
namespace fs = std::filesystem;

namespace {

// A directory with copies of probe files. Copies have names and inodes of their own, so that what
// one test loads is not what another finds mapped.
class Folder {
public:
    Folder() {
        std::string pattern = (fs::temp_directory_path() / "sluice-registry-XXXXXX").string();
        REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        path_ = fs::canonical(pattern);
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    fs::path add(const std::string& probe, std::string as = {}) const {
        const std::string name = "org.example.probe." + probe + ".so";
        const fs::path to = path_ / (as.empty() ? name : as);
        fs::copy_file(fs::path(SLUICE_PROBE_DIR) / name, to, fs::copy_options::overwrite_existing);
        fs::permissions(to, fs::perms(0644));
        return to;
    }
    std::string path() const { return path_.string(); }

private:
    fs::path path_;
};

LoaderOptions unscanned(const Folder& folder) {
    // A checker that cannot be run says nothing about any file.
    LoaderOptions options;
    options.directories = {folder.path()};
    options.checker = "/nonexistent/sluice-plugin-check";
    return options;
}

LoaderOptions scanned(const Folder& folder) {
    LoaderOptions options = unscanned(folder);
    options.checker = SLUICE_PLUGIN_CHECK;
    return options;
}

const FileReport& report_of(const std::vector<FileReport>& reports, const std::string& name) {
    const auto it = std::find_if(reports.begin(), reports.end(),
                                 [&](const FileReport& r) { return r.path.ends_with("/" + name); });
    REQUIRE(it != reports.end());
    return *it;
}

}  // namespace

TEST_CASE("a good file is loaded, described and found") {
    testing::QuietLog quiet;
    const Folder folder;
    folder.add("good");
    Registry registry(scanned(folder));
    registry.scan();
    const auto reports = registry.reports();
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].state == FileState::Loaded);
    CHECK(reports[0].reason.empty());
    CHECK(reports[0].abi_major == 1);
    REQUIRE(reports[0].plugins.size() == 1);
    CHECK(reports[0].plugins[0].id == "org.example.probe.good");
    CHECK(reports[0].plugins[0].provides_extension(SLUICE_EXT_SELECTOR));
    const PluginPtr plugin = registry.find("org.example.probe.good");
    REQUIRE(plugin);
    CHECK(plugin->config_schema().takes("level"));
    CHECK_FALSE(registry.find("org.example.nobody"));
}

TEST_CASE("an instance of a loaded file works") {
    const Folder folder;
    folder.add("good");
    testing::Running running;
    Registry registry(unscanned(folder));
    registry.scan();
    const PluginPtr plugin = registry.find("org.example.probe.good");
    REQUIRE(plugin);
    const Verdict verdict = plugin->propose("{}", "{}", "", "");
    CHECK(verdict.config == R"({"level":1})");
    auto made = SelectorInstance::create(running.runtime, plugin, {"probe-1", verdict.config, {}});
    REQUIRE(made.ok());
    REQUIRE((*made)->activate().ok());
    std::vector<sluice_candidate> rows{testing::row(1, 1), testing::row(2, 0)};
    auto view = SelectorView::prepare({{*made, 1.0F}}, rows);
    REQUIRE(view.ok());
    CHECK((*view)->choose(sluice_request{}, SLUICE_LEG_SINGLE, 0, rows).index == 1);
}

TEST_CASE("a file that cannot be used is reported with the reason and does not disturb others") {
    struct Row {
        const char* probe;
        FileState state;
        const char* says;
    };
    for (const Row& row :
         {Row{"major", FileState::Refused, "built for ABI 2.0, this gateway has 1.0"},
          Row{"minor", FileState::Refused, "built for ABI 1.9"},
          Row{"no-entry", FileState::Bad, "does not export sluice_plugin_entry_v1"},
          Row{"needs", FileState::Refused, "needs the service org.example.service/1"},
          Row{"schema", FileState::Refused, "config_schema"},
          Row{"draft", FileState::Refused, "allow_draft_plugins is off"},
          Row{"init-fails", FileState::Refused, "init: not supported"}}) {
        CAPTURE(row.probe);
        testing::QuietLog quiet;
        const Folder folder;
        folder.add(row.probe);
        folder.add("good", "zz.so");
        Registry registry(unscanned(folder));
        registry.scan();
        const auto reports = registry.reports();
        REQUIRE(reports.size() == 2);
        CHECK(reports[0].state == row.state);
        CAPTURE(reports[0].reason);
        CHECK(reports[0].reason.find(row.says) != std::string::npos);
        CHECK(reports[1].state == FileState::Loaded);
        CHECK(quiet.says("plugin file not loaded"));
    }
}

TEST_CASE("drafts load when they are allowed") {
    testing::QuietLog quiet;
    const Folder folder;
    folder.add("draft");
    auto options = unscanned(folder);
    options.allow_drafts = true;
    Registry registry(options);
    registry.scan();
    CHECK(registry.reports()[0].state == FileState::Loaded);
}

TEST_CASE("the first id wins over directories, a taken alias is refused") {
    testing::QuietLog quiet;
    const Folder first;
    const Folder second;
    first.add("good");
    first.add("alias-one");
    second.add("twin");
    second.add("alias-two");
    auto options = unscanned(first);
    options.directories.push_back(second.path());
    options.directories.emplace_back("/nonexistent/plugins");
    Registry registry(options);
    registry.scan();
    const auto reports = registry.reports();
    REQUIRE(reports.size() == 4);
    CHECK(report_of(reports, "org.example.probe.twin.so").state == FileState::Shadowed);
    const FileReport& alias = report_of(reports, "org.example.probe.alias-two.so");
    CHECK(alias.state == FileState::Refused);
    CHECK(alias.reason.find("org.example.probe.alias-one") != std::string::npos);
    REQUIRE(registry.find("probe"));
    CHECK(registry.find("probe")->id() == "org.example.probe.alias-one");
    CHECK(registry.plugins().size() == 2);
}

TEST_CASE("files that others could write, or that lead elsewhere, are refused unread") {
    testing::QuietLog quiet;
    const Folder folder;
    const Folder elsewhere;
    fs::permissions(folder.add("good", "group.so"), fs::perms(0664));
    fs::permissions(folder.add("good", "world.so"), fs::perms(0646));
    fs::create_symlink(elsewhere.add("good"), fs::path(folder.path()) / "link.so");
    fs::create_directory(fs::path(folder.path()) / "directory.so");
    fs::create_symlink("/nonexistent/file", fs::path(folder.path()) / "nowhere.so");
    folder.add("good", "not-a-plugin.txt");
    Registry registry(unscanned(folder));
    registry.scan();
    const auto reports = registry.reports();
    CHECK(reports.size() == 5);
    for (const auto& [name, says] : {std::pair{"group.so", "writable by group or others"},
                                     std::pair{"world.so", "writable by group or others"},
                                     std::pair{"link.so", "leads out of its directory"},
                                     std::pair{"directory.so", "not a regular file"},
                                     std::pair{"nowhere.so", "cannot be resolved"}}) {
        const FileReport& report = report_of(reports, name);
        CHECK(report.state == FileState::Refused);
        CHECK(report.reason.find(says) != std::string::npos);
    }
}

TEST_CASE("files of another user are refused" * doctest::skip(::geteuid() != 0)) {
    testing::QuietLog quiet;
    const Folder folder;
    REQUIRE(::chown(folder.add("good").c_str(), 12345, 0) == 0);
    Registry registry(unscanned(folder));
    registry.scan();
    CHECK(registry.reports()[0].state == FileState::Refused);
    CHECK(registry.reports()[0].reason.find("owned by user 12345") != std::string::npos);
}

TEST_CASE("a directory that others could write is refused as a whole") {
    testing::QuietLog quiet;
    const Folder folder;
    folder.add("good");
    fs::permissions(folder.path(), fs::perms(0777));
    Registry registry(unscanned(folder));
    registry.scan();
    REQUIRE(registry.reports().size() == 1);
    CHECK(registry.reports()[0].path == folder.path());
    CHECK(registry.reports()[0].state == FileState::Refused);
    CHECK(registry.plugins().empty());
}

TEST_CASE("a symbolic link inside the directory is one file with its target") {
    testing::QuietLog quiet;
    const Folder folder;
    folder.add("good");
    fs::create_symlink("org.example.probe.good.so", fs::path(folder.path()) / "zz-link.so");
    Registry registry(unscanned(folder));
    registry.scan();
    CHECK(registry.reports().size() == 1);
    CHECK(registry.plugins().size() == 1);
}

TEST_CASE("a file that crashes or hangs while it is scanned is bad and stays out of the process") {
    testing::QuietLog quiet;
    const Folder folder;
    folder.add("crashes");
    folder.add("good");
    Registry registry(scanned(folder));
    registry.scan();
    auto reports = registry.reports();
    CHECK(reports[0].state == FileState::Bad);
    CHECK(reports[0].reason.find("died while it was scanned") != std::string::npos);
    CHECK(reports[1].state == FileState::Loaded);
    // The hang, with a shorter limit than the loader's.
    const auto hung = describe_in_child(SLUICE_PLUGIN_CHECK, folder.add("hangs").string(),
                                        std::chrono::milliseconds(300));
    REQUIRE_FALSE(hung.ok());
    CHECK(hung.error().code == sluice::Code::Timeout);
}

TEST_CASE("a bad file is not scanned again until it changes") {
    testing::QuietLog quiet;
    const Folder folder;
    const Folder tools;
    // A checker that counts its runs and always crashes.
    const std::string count = tools.path() + "/count";
    const std::string checker = tools.path() + "/checker";
    {
        FILE* f = std::fopen(checker.c_str(), "w");
        REQUIRE(f != nullptr);
        std::fprintf(f, "#!/bin/sh\necho run >> %s\nkill -SEGV $$\n", count.c_str());
        std::fclose(f);
        fs::permissions(checker, fs::perms(0755));
    }
    const auto runs = [&] {
        std::error_code none;
        const auto bytes = fs::file_size(count, none);
        return none ? std::uintmax_t{0} : bytes / 4;
    };
    const auto file = folder.add("good");
    auto options = unscanned(folder);
    options.checker = checker;
    Registry registry(options);
    registry.scan();
    registry.scan();
    CHECK(runs() == 1);
    CHECK(registry.reports()[0].state == FileState::Bad);
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(5));
    registry.scan();
    CHECK(runs() == 2);
}

TEST_CASE("a scan that fails for the file's sake is told in the checker's words") {
    testing::QuietLog quiet;
    const Folder folder;
    folder.add("major");
    Registry registry(scanned(folder));
    registry.scan();
    CHECK(registry.reports()[0].state == FileState::Bad);
    CHECK(registry.reports()[0].reason.find("built for ABI 2.0") != std::string::npos);
}

TEST_CASE("a later scan takes what is new and leaves what is loaded") {
    testing::QuietLog quiet;
    const Folder folder;
    const auto file = folder.add("good");
    Registry registry(unscanned(folder));
    registry.scan();
    const PluginPtr before = registry.find("org.example.probe.good");
    folder.add("alias-one", "aa.so");
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(5));
    registry.scan();
    CHECK(registry.find("org.example.probe.good") == before);
    CHECK(registry.find("probe"));
    CHECK(
        report_of(registry.reports(), "org.example.probe.good.so").reason.find("changed on disk") !=
        std::string::npos);
    fs::remove(file);
    registry.scan();
    CHECK(registry.find("org.example.probe.good") == before);
    CHECK(
        report_of(registry.reports(), "org.example.probe.good.so").reason.find("gone from disk") !=
        std::string::npos);
}

TEST_CASE("a refused file that is replaced by a good one loads at the next scan") {
    testing::QuietLog quiet;
    const Folder folder;
    folder.add("init-fails", "x.so");
    Registry registry(unscanned(folder));
    registry.scan();
    CHECK(registry.reports()[0].state == FileState::Refused);
    // As a package manager does: a new file takes the name.
    fs::rename(folder.add("good", "x.so.new"), fs::path(folder.path()) / "x.so");
    registry.scan();
    CHECK(registry.reports()[0].state == FileState::Loaded);
    CHECK(registry.find("org.example.probe.good"));
}

TEST_CASE("every service of the SDK is there, unknown ones are not") {
    const auto directories = default_plugin_directories();
    REQUIRE(directories.size() == 2);
    CHECK(directories[0].starts_with("/usr/lib/"));
    CHECK(directories[1] == "/usr/local/lib/sluice/plugins");
}

TEST_SUITE_END();
