#include <string>

#include "core/tokens/chat_fields.hpp"
#include "core/tokens/chat_messages.hpp"

namespace sluice::tokens {

Result<Value> shape_tools(Arena& arena, const Value& tools) {
    if (tools.is_none() || tools.is_undefined()) {
        return Value::none();
    }
    if (!tools.is(Kind::List)) {
        return invalid("tools must be a list");
    }
    ListData* out = make_list(arena, tools.list->size);
    for (const Value& tool : tools.list->view()) {
        const Value* function = set_field(tool, "function");
        const Value* name = function != nullptr ? field(*function, "name") : nullptr;
        if (name == nullptr || !name->is_string()) {
            return invalid("a tool needs a function with a name");
        }
        DictData* inner = make_dict(arena, 5);
        put(arena, *inner, "name", *name);
        for (const std::string_view key : {"description", "parameters"}) {
            const Value* v = field(*function, key);
            put(arena, *inner, key, v != nullptr ? *v : Value::none());
        }
        if (const Value* strict = set_field(*function, "strict")) {
            put(arena, *inner, "strict", *strict);
        }
        const Value* defer = set_field(tool, "defer_loading");
        const Value* inner_defer = defer != nullptr ? defer : set_field(*function, "defer_loading");
        if (inner_defer != nullptr) {
            put(arena, *inner, "defer_loading", *inner_defer);
        }
        const Value* type = set_field(tool, "type");
        DictData* shaped = make_dict(arena, 3);
        put(arena, *shaped, "type", type != nullptr ? *type : Value::of("function"));
        put(arena, *shaped, "function", Value::of(inner));
        if (defer != nullptr) {
            put(arena, *shaped, "defer_loading", *defer);
        }
        append(arena, *out, Value::of(shaped));
    }
    return Value::of(out);
}

}  // namespace sluice::tokens
