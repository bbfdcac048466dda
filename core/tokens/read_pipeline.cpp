#include <algorithm>

#include "core/tokens/tokenizer_json_parts.hpp"
#include "core/tokens/unicode.hpp"

namespace sluice::tokens::file {
namespace {

// {"String": "..."} or {"Regex": "..."}
struct Pattern {
    std::string_view text;
    bool is_regex = false;
};
Result<Pattern> pattern_of(element value) {
    const element pattern = member(value, "pattern");
    const bool is_regex = has(pattern, "Regex");
    const auto text = text_of(pattern, is_regex ? "Regex" : "String");
    if (!text) {
        return text.error().at("pattern");
    }
    if (text->empty()) {
        return invalid("pattern is empty");
    }
    return Pattern{*text, is_regex};
}

// Calls `each` on the value itself, or in order on the members of a Sequence.
template <class Each>
Status for_each(element value, std::string_view list_name, int depth, const Each& each) {
    if (value.is_null()) {
        return {};
    }
    const auto type = text_of(value, "type");
    if (!type) {
        return type.error();
    }
    if (*type != "Sequence") {
        return each(*type, value);
    }
    simdjson::dom::array list;
    if (depth > 4 || member(value, list_name).get(list) != simdjson::SUCCESS) {
        return invalid("Sequence without " + std::string(list_name));
    }
    for (const element item : list) {
        if (item.is_null()) {
            return invalid("Sequence with a null in it");
        }
        if (Status status = for_each(item, list_name, depth + 1, each); !status) {
            return status;
        }
    }
    return {};
}

Result<Behavior> behavior_of(element value) {
    const auto name = text_of(value, "behavior");
    if (!name) {
        return name.error();
    }
    const auto invert = flag_of(value, "invert", false);
    if (!invert) {
        return invert.error();
    }
    if (*name == "Isolated") {
        return Behavior::Isolated;
    }
    if (*name == "Removed") {
        return *invert ? Behavior::MatchesOnly : Behavior::GapsOnly;
    }
    if (*name == "MergedWithPrevious" && !*invert) {
        return Behavior::MergedWithPrevious;
    }
    return unsupported("behavior " + std::string(*name) + (*invert ? " with invert" : ""));
}

Result<PreTokenizer::Stage> split_stage(element value) {
    const auto pattern = pattern_of(value);
    if (!pattern) {
        return pattern.error();
    }
    const auto behavior = behavior_of(value);
    if (!behavior) {
        return behavior.error();
    }
    PreTokenizer::Stage stage;
    if (!pattern->is_regex) {
        stage.scanner = make_literal_scanner(pattern->text, *behavior);
        return stage;
    }
    stage.scanner = make_known_scanner(pattern->text, *behavior);
    if (stage.scanner == nullptr) {
        auto scanner = make_regex_scanner(pattern->text, *behavior);
        if (!scanner) {
            return std::move(scanner).error();
        }
        stage.scanner = std::move(*scanner);
    }
    return stage;
}

Result<PreTokenizer::Stage> byte_level_stage(element value) {
    const auto prefix = flag_of(value, "add_prefix_space", true);
    const auto regex = flag_of(value, "use_regex", true);
    if (!prefix || !regex) {
        return prefix ? regex.error() : prefix.error();
    }
    PreTokenizer::Stage stage;
    if (*prefix) {
        stage.prefix = " ";
        stage.prefix_when = PreTokenizer::Prefix::Always;
    }
    if (*regex) {
        stage.scanner = make_gpt2_scanner();
    }
    return stage;
}

Result<PreTokenizer::Stage> metaspace_stage(element value) {
    const auto mark = text_of(value, "replacement");
    const auto splits = flag_of(value, "split", true);
    const auto old_prefix = flag_of(value, "add_prefix_space", true);
    for (const Error* error : {mark ? nullptr : &mark.error(), splits ? nullptr : &splits.error(),
                               old_prefix ? nullptr : &old_prefix.error()}) {
        if (error != nullptr) {
            return *error;
        }
    }
    if (unicode::count_chars(*mark) != 1) {
        return invalid("replacement must be one character");
    }
    std::string_view scheme = *old_prefix ? "always" : "never";
    if (has(value, "prepend_scheme")) {
        const auto given = text_of(value, "prepend_scheme");
        if (!given) {
            return given.error();
        }
        if (!*old_prefix && *given != "never") {
            return invalid("add_prefix_space contradicts prepend_scheme");
        }
        scheme = *given;
    }
    PreTokenizer::Stage stage;
    stage.mark = *mark;
    stage.prefix = *mark;
    if (scheme == "always") {
        stage.prefix_when = PreTokenizer::Prefix::Always;
    } else if (scheme == "first") {
        stage.prefix_when = PreTokenizer::Prefix::First;
    } else if (scheme != "never") {
        return unsupported("prepend_scheme " + std::string(scheme));
    }
    if (*splits) {
        stage.scanner = make_mark_scanner(*mark, true);
    }
    return stage;
}

// One template item: ids of a special token, or the place of the text.
Status read_template_item(element item, element tokens, bool& has_text, TokenizerParts& out) {
    if (has(item, "Sequence")) {
        const auto id = text_of(member(item, "Sequence"), "id");
        if (!id || *id != "A" || has_text) {
            return invalid("single must name sequence A once");
        }
        has_text = true;
        return {};
    }
    const auto name = text_of(member(item, "SpecialToken"), "id");
    if (!name) {
        return invalid("an item of single is neither Sequence nor SpecialToken");
    }
    simdjson::dom::array ids;
    if (member(member(tokens, *name), "ids").get(ids) != simdjson::SUCCESS) {
        return invalid("special_tokens has no ids for '" + std::string(*name) + "'");
    }
    for (const element value : ids) {
        const auto id = id_of(value);
        if (!id) {
            return id.error();
        }
        (has_text ? out.after : out.before).push_back(*id);
    }
    return {};
}

Status read_template(element value, TokenizerParts& out) {
    simdjson::dom::array items;
    if (member(value, "single").get(items) != simdjson::SUCCESS) {
        return invalid("TemplateProcessing without single");
    }
    // A second template goes around the first.
    std::vector<TokenId> inner_before = std::move(out.before);
    const std::vector<TokenId> inner_after = std::move(out.after);
    out.before.clear();
    out.after = inner_after;
    bool has_text = false;
    for (const element item : items) {
        const bool had_text = has_text;
        if (Status status =
                read_template_item(item, member(value, "special_tokens"), has_text, out);
            !status) {
            return status;
        }
        if (has_text && !had_text) {
            out.before.insert(out.before.end(), inner_before.begin(), inner_before.end());
        }
    }
    return has_text ? Status() : Status(invalid("single does not name sequence A"));
}

}  // namespace

Status read_normalizer(element value, Normalizer& out) {
    return for_each(value, "normalizers", 0, [&](std::string_view type, element step) -> Status {
        if (type == "NFC") {
            out.add({Normalizer::Kind::Nfc, {}, {}});
            return {};
        }
        if (type == "Prepend") {
            const auto content = text_of(step, "prepend");
            if (!content) {
                return content.error();
            }
            out.add({Normalizer::Kind::Prepend, {}, std::string(*content)});
            return {};
        }
        if (type != "Replace") {
            return unsupported("type " + std::string(type));
        }
        const auto pattern = pattern_of(step);
        const auto content = text_of(step, "content");
        if (!pattern || !content) {
            return (pattern ? content.error() : pattern.error()).at("Replace");
        }
        if (pattern->is_regex) {
            return unsupported("Replace with a Regex");
        }
        out.add({Normalizer::Kind::Replace, std::string(pattern->text), std::string(*content)});
        return {};
    });
}

Status read_pre_tokenizer(element value, PreTokenizer& out, bool& is_byte_level) {
    return for_each(value, "pretokenizers", 0, [&](std::string_view type, element item) -> Status {
        if (is_byte_level) {
            return unsupported(std::string(type) + " after ByteLevel");
        }
        Result<PreTokenizer::Stage> stage = unsupported("type " + std::string(type));
        if (type == "Split") {
            stage = split_stage(item);
        } else if (type == "ByteLevel") {
            stage = byte_level_stage(item);
            is_byte_level = true;
        } else if (type == "Metaspace") {
            stage = metaspace_stage(item);
        }
        if (!stage) {
            return stage.error();
        }
        if (stage->scanner != nullptr || stage->changes_text()) {
            if (out.stages() == PreTokenizer::kMaxStages) {
                return Error{Code::Limit, "too many stages"};
            }
            out.add(std::move(*stage));
        }
        return {};
    });
}

Status read_post_processor(element value, TokenizerParts& out) {
    return for_each(value, "processors", 0, [&](std::string_view type, element item) -> Status {
        if (type == "ByteLevel") {
            return {};  // changes offsets only
        }
        if (type == "TemplateProcessing") {
            return read_template(item, out);
        }
        return unsupported("type " + std::string(type));
    });
}

}  // namespace sluice::tokens::file
