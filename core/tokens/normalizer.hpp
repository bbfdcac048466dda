// The steps a tokenizer.json applies to a segment before it is split.
//
// Threads: any; immutable after construction.
// Errors:  none here; tokenizer_json.cpp refuses normalizers that are not one of these.
// Limits:  NFC can triple a segment; Replace grows it by the ratio of content to pattern.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace sluice::tokens {

class Normalizer {
public:
    enum class Kind {
        Nfc,      //
        Replace,  // every `pattern` by `content`
        Prepend,  // `content` in front, if the segment is not empty
    };
    struct Step {
        Kind kind;
        std::string pattern;
        std::string content;
    };

    void add(Step step) { steps_.push_back(std::move(step)); }
    bool is_identity() const noexcept { return steps_.empty(); }

    // The normalized segment: `segment` itself if nothing changed, else a view of `buffer`.
    std::string_view apply(std::string_view segment, std::string& buffer) const;

private:
    std::vector<Step> steps_;
};

}  // namespace sluice::tokens
