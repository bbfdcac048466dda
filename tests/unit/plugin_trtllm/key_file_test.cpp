#include "plugins/trtllm/key_file.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "plugins/trtllm/auth.hpp"
#include "tests/unit/plugin_trtllm/legs.hpp"

using namespace sluice;
using namespace sluice::trtllm;
using namespace sluice::trtllm::test;

namespace {

// A file that is gone at the end of its scope.
class File {
public:
    explicit File(const std::string& text, mode_t mode = 0600) {
        std::string name = "/tmp/sluice-key-XXXXXX";
        const int fd = ::mkstemp(name.data());
        REQUIRE(fd >= 0);
        ::close(fd);
        path = name;
        write(text);
        ::chmod(path.c_str(), mode);
    }
    ~File() { std::remove(path.c_str()); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    void write(const std::string& text) const { std::ofstream(path) << text; }
    std::string path;
};

constexpr const char* kReply =
    R"({"choices":[{"finish_reason":"length","disaggregated_params":{"request_type":"context_only",)"
    R"("ctx_request_id":1,"encoded_opaque_state":"AAECAw==","ctx_info_endpoint":null}}]})";
constexpr const char* kRefusal =
    R"({"object":"error","message":"Invalid internal disaggregated request authentication"})";

}  // namespace

TEST_SUITE("trtllm/key_file") {
    TEST_CASE("a key is one line in a file of its owner") {
        struct Row {
            const char* name;
            std::string text;
            mode_t mode;
            const char* key;
        };
        for (const Row& row :
             {Row{"a key", "k-1", 0600, "k-1"}, Row{"with a line end", "k-1\n", 0400, "k-1"},
              Row{"empty", "", 0600, ""}, Row{"two lines", "a\nb\n", 0600, ""},
              Row{"two words", "a b", 0600, ""}, Row{"for the group", "k-1", 0640, ""},
              Row{"too long", std::string(KeyFile::kMaxKeyBytes + 1, 'k'), 0600, ""}}) {
            CAPTURE(row.name);
            const File file(row.text, row.mode);
            KeyFile key(file.path);
            const std::string wrong = key.look();
            CHECK(wrong.empty() == (row.key[0] != '\0'));
            CHECK(wrong.find("k-1") == std::string::npos);
            CHECK(key.key()->text == row.key);
            CHECK(key.look().empty());  // said once
        }
        KeyFile none("");
        CHECK(none.look().empty());
        CHECK(none.key()->text.empty());
    }

    TEST_CASE("another key is taken over, a bad file leaves the last one in force") {
        const File file("first\n");
        KeyFile key(file.path);
        REQUIRE(key.look().empty());
        const std::uint64_t serial = key.key()->serial;
        file.write("second-one\n");
        CHECK(key.look().empty());
        CHECK(key.key()->text == "second-one");
        CHECK(key.key()->serial == serial + 1);
        ::chmod(file.path.c_str(), 0644);
        CHECK_FALSE(key.look().empty());
        CHECK(key.key()->text == "second-one");
        std::remove(file.path.c_str());
        CHECK_FALSE(key.look().empty());
        CHECK(key.look().empty());
        CHECK(key.key()->text == "second-one");
    }

    TEST_CASE("a generation leg is signed where there is a key and something to protect") {
        const File file("s3cret\n");
        Pair pair(kNewest, "{\"trt_disagg_key_file\":\"" + file.path + "\"}");
        const Request request(R"({"prompt":"hi"})");
        const Judged judged = pair.context(request, kReply);
        const Built built = pair.build(request, SLUICE_LEG_DECODE, judged.handoff);
        CHECK(built.headers.at("x-trtllm-disagg-auth") ==
              sign("s3cret", {std::nullopt, "AAECAw=="}).value());
        CHECK(built.body.find("s3cret") == std::string::npos);
        CHECK(pair.build(request, SLUICE_LEG_DECODE).headers.at("x-trtllm-disagg-auth").empty());
        CHECK(pair.build(request, SLUICE_LEG_PREFILL).headers.count("x-trtllm-disagg-auth") == 0);
        const Judged bare = pair.context(
            request,
            R"({"choices":[{"disaggregated_params":{"ctx_request_id":1,"encoded_opaque_state":null}}]})");
        CHECK(pair.build(request, SLUICE_LEG_DECODE, bare.handoff)
                  .headers.at("x-trtllm-disagg-auth")
                  .empty());
        file.write("rotated\n");
        pair.flow.host.advance(2 * kSecond);
        CHECK(pair.build(request, SLUICE_LEG_DECODE, judged.handoff)
                  .headers.at("x-trtllm-disagg-auth") ==
              sign("rotated", {std::nullopt, "AAECAw=="}).value());
    }

    TEST_CASE("a refused signature is the operator's, told once for each key") {
        const File file("s3cret\n");
        for (const bool has_key : {true, false}) {
            Pair pair(kNewest, has_key ? "{\"trt_disagg_key_file\":\"" + file.path + "\"}" : "{}");
            const Request request(R"({"prompt":"hi"})");
            const std::string handoff = pair.context(request, kReply).handoff;
            const auto told = [&] {
                std::size_t n = 0;
                for (const auto& line : pair.flow.host.logs()) {
                    n += line.message == "hand-offs are refused for their signature" ? 1 : 0;
                }
                return n;
            };
            for (int i = 0; i < 3; ++i) {
                const Judged judged =
                    pair.judge(pair.leg(request, SLUICE_LEG_DECODE, handoff), 400, kRefusal);
                CHECK(judged.next == SLUICE_NEXT_FAIL);
                CHECK(judged.error.find("signature") != std::string::npos);
                CHECK(judged.error.find("10.0.0.8") == std::string::npos);  // clients read it
                CHECK(judged.error.find("s3cret") == std::string::npos);
            }
            CHECK(told() == 1);
            // Of a leg without a hand-off the words are the client's own matter.
            CHECK(pair.judge(pair.leg(request, SLUICE_LEG_DECODE), 400, kRefusal).next ==
                  SLUICE_NEXT_RELAY);
        }
    }
}
