// The stages between a normalized segment and the splits that BPE sees.
//
// A stage cuts a piece with a Scanner, or first changes its text (Metaspace, ByteLevel's prefix
// space). Stages work on each split of the one before.
//
// Threads: any; immutable after construction.
// Errors:  run() is false if a pattern gave up on the text (scanner.hpp).
// Limits:  kMaxStages; the stack holds a batch of splits a stage.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokens/scanner.hpp"

namespace sluice::tokens {

class PreTokenizer {
public:
    static constexpr std::size_t kMaxStages = 8;
    static constexpr std::size_t kBatch = 128;

    enum class Prefix {
        Never,
        Always,
        First,  // only on the piece at the very start of the text
    };
    struct Stage {
        // Text changes come before the cut: every space becomes `mark` (unless empty), and `prefix`
        // is put in front unless the piece begins with it.
        std::string mark;
        std::string prefix;
        Prefix prefix_when = Prefix::Never;
        std::unique_ptr<const Scanner> scanner;  // null: the piece is one split

        bool changes_text() const noexcept { return !mark.empty() || !prefix.empty(); }
    };

    void add(Stage stage) { stages_.push_back(std::move(stage)); }
    std::size_t stages() const noexcept { return stages_.size(); }
    // True if the result depends on whether the piece is at the start of the text.
    bool depends_on_start() const noexcept;

    // Calls emit(text, size, spans, count) for batches of at most kBatch splits, in order. `text`
    // may be another one than the piece's, and is gone after the call; `size` bytes of it may be
    // read.
    template <class Emit>
    bool run(std::string_view piece, bool is_at_start, Emit&& emit) const {
        return run_from(0, piece, {0, static_cast<std::uint32_t>(piece.size())}, is_at_start, emit);
    }

private:
    static std::string changed(const Stage& stage, std::string_view piece, bool is_at_start);

    template <class Emit>
    bool run_from(std::size_t index, std::string_view text, Span piece, bool is_at_start,
                  Emit& emit) const {
        if (index == stages_.size()) {
            emit(text.data(), text.size(), &piece, std::size_t{1});
            return true;
        }
        const Stage& stage = stages_[index];
        if (stage.changes_text()) {
            const std::string now =
                changed(stage, text.substr(piece.begin, piece.end - piece.begin), is_at_start);
            return cut(index, now, {0, static_cast<std::uint32_t>(now.size())}, is_at_start, emit);
        }
        return cut(index, text, piece, is_at_start, emit);
    }

    template <class Emit>
    bool cut(std::size_t index, std::string_view text, Span piece, bool is_at_start,
             Emit& emit) const {
        const Stage& stage = stages_[index];
        if (stage.scanner == nullptr) {
            return run_from(index + 1, text, piece, is_at_start, emit);
        }
        const bool is_last = index + 1 == stages_.size();
        std::array<Span, kBatch> spans;
        std::uint32_t at = piece.begin;
        while (at != piece.end) {
            const std::size_t count =
                stage.scanner->scan(text.data(), at, piece.end, spans.data(), kBatch);
            if (count == kScanFailed) {
                return false;
            }
            if (is_last) {
                emit(text.data(), text.size(), spans.data(), count);
                continue;
            }
            for (std::size_t i = 0; i < count; ++i) {
                const bool is_first = is_at_start && spans[i].begin == piece.begin;
                if (!run_from(index + 1, text, spans[i], is_first, emit)) {
                    return false;
                }
            }
        }
        return true;
    }

    std::vector<Stage> stages_;
};

}  // namespace sluice::tokens
