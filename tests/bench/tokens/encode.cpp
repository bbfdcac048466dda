// Speed of Tokenizer::encode, one thread, over the files that texts.py writes.
//
//   bench-tokens TOKENIZER_JSON TEXTS_DIR [--ids OUTPUT_DIR]
//
// Three figures a file, MB/s of UTF-8 by CPU time of the thread: cold (a new tokenizer), warm (an
// eighth of the texts was seen, the rest was not: words are known, segments are not) and again (all
// was seen: segments are known). peers.py does "warm" with other encoders.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/tokens/tokenizer.hpp"

namespace {

using sluice::tokens::TokenId;
using sluice::tokens::Tokenizer;

double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::vector<std::string> read_texts(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(in)), {});
    std::vector<std::string> texts;
    for (std::size_t at = 0; at + 4 <= all.size();) {
        std::uint32_t length = 0;
        std::memcpy(&length, all.data() + at, 4);
        texts.push_back(all.substr(at + 4, length));
        at += 4 + texts.back().size();
    }
    return texts;
}

// Megabytes a second over texts [0, count).
double run(const Tokenizer& tokenizer, const std::vector<std::string>& texts, std::size_t count,
           std::vector<TokenId>* keep) {
    std::vector<TokenId> ids;
    std::size_t bytes = 0;
    const double begin = cpu_seconds();
    for (std::size_t i = 0; i < count; ++i) {
        ids.clear();
        if (!tokenizer.encode(texts[i], false, ids)) {
            std::fprintf(stderr, "a text was refused\n");
            std::exit(1);
        }
        bytes += texts[i].size();
        if (keep != nullptr) {
            keep->insert(keep->end(), ids.begin(), ids.end());
        }
    }
    return static_cast<double>(bytes) / (cpu_seconds() - begin) / 1e6;
}

std::shared_ptr<const Tokenizer> load(const std::string& path) {
    auto loaded = Tokenizer::load(
        path, std::filesystem::path(path).replace_filename("tokenizer_config.json"));
    if (!loaded) {
        std::fprintf(stderr, "%s\n", loaded.error().what.c_str());
        std::exit(1);
    }
    return *loaded;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3 && !(argc == 5 && std::strcmp(argv[3], "--ids") == 0)) {
        std::fprintf(stderr, "usage: %s TOKENIZER_JSON TEXTS_DIR [--ids OUTPUT_DIR]\n", argv[0]);
        return 2;
    }
    const double begin = cpu_seconds();
    load(argv[1]);
    std::printf("loaded in %.2f s\n%-14s %8s %8s %8s MB/s\n", cpu_seconds() - begin, "", "cold",
                "warm", "again");
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(argv[2])) {
        files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    const auto warm = load(argv[1]);
    for (const auto& file : files) {
        const auto texts = read_texts(file);
        const std::size_t eighth = std::max<std::size_t>(1, texts.size() / 8);
        const double cold = run(*load(argv[1]), texts, texts.size(), nullptr);
        run(*warm, texts, eighth, nullptr);
        // Not the eighth that was seen, which the segment cache would answer.
        const std::vector<std::string> unseen(texts.begin() + static_cast<std::ptrdiff_t>(eighth),
                                              texts.end());
        const double first = run(*warm, unseen, unseen.size(), nullptr);
        std::vector<TokenId> ids;
        run(*warm, texts, texts.size(), &ids);
        const double again = run(*warm, texts, texts.size(), nullptr);
        std::printf("%-14s %8.1f %8.1f %8.1f\n", file.stem().c_str(), cold, first, again);
        if (argc == 5) {
            std::filesystem::create_directories(argv[4]);
            std::ofstream out(std::filesystem::path(argv[4]) / file.filename(), std::ios::binary);
            out.write(reinterpret_cast<const char*>(ids.data()),
                      static_cast<std::streamsize>(ids.size() * sizeof(TokenId)));
        }
    }
}
