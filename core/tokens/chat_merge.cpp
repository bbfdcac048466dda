#include <algorithm>
#include <cstring>

#include "core/tokens/chat_fields.hpp"

namespace sluice::tokens {
namespace {

// The text of a shaped message, for merging: parts joined as a text template would have them.
void collect_texts(Arena& arena, const Value& message, std::vector<std::string_view>& out) {
    const Value& content = *find(*message.dict, "content");
    std::vector<std::string_view> texts;
    if (content.is_string()) {
        texts.push_back(content.str());
    } else {
        for (const Value& part : content.list->view()) {
            if (const Value* text = find(*part.dict, "text"); text != nullptr && text->size > 0) {
                texts.push_back(text->str());
            }
        }
    }
    const Value joined = join_texts(arena, texts, "\n");
    if (joined.size > 0) {
        out.push_back(joined.str());
    }
}

}  // namespace

Value join_texts(Arena& arena, const std::vector<std::string_view>& texts,
                 std::string_view between) {
    std::size_t size = texts.empty() ? 0 : between.size() * (texts.size() - 1);
    for (const std::string_view t : texts) {
        size += t.size();
    }
    if (texts.size() == 1) {
        return Value::of(texts[0]);
    }
    char* to = arena.text(size);
    if (to == nullptr) {
        return Value::of("");
    }
    std::size_t at = 0;
    const auto add = [&](std::string_view s) {
        std::memcpy(to + at, s.data(), s.size());
        at += s.size();
    };
    for (std::size_t i = 0; i < texts.size(); ++i) {
        if (i > 0) {
            add(between);
        }
        add(texts[i]);
    }
    return Value::of(std::string_view(to, size));
}

bool has_role(const Value& message, std::string_view role) {
    return find(*message.dict, "role")->str() == role;
}

ListData* without_developer(Arena& arena, const ListData* in) {
    ListData* out = make_list(arena, in->size);
    for (const Value& message : in->view()) {
        if (!has_role(message, "developer")) {
            append(arena, *out, message);
            continue;
        }
        DictData* system = make_dict(arena, message.dict->size);
        for (const DictEntry& e : message.dict->view()) {
            if (e.key.str() == "role") {
                put(arena, *system, e.key, Value::of("system"));
            } else if (e.key.str() != "tools") {
                put(arena, *system, e.key, e.value);
            }
        }
        append(arena, *out, Value::of(system));
    }
    const auto is_system = [](const Value& m) {
        return has_role(m, "system");
    };
    const auto systems = std::ranges::count_if(out->view(), is_system);
    if (systems == 0 || (systems == 1 && is_system(out->items[0]))) {
        return out;
    }
    std::vector<std::string_view> texts;
    ListData* merged = make_list(arena, out->size);
    DictData* first = make_dict(arena, 2);
    append(arena, *merged, Value::of(first));
    for (const Value& message : out->view()) {
        if (is_system(message)) {
            collect_texts(arena, message, texts);
        } else {
            append(arena, *merged, message);
        }
    }
    put(arena, *first, "role", Value::of("system"));
    put(arena, *first, "content", join_texts(arena, texts, "\n\n"));
    return merged;
}

}  // namespace sluice::tokens
