#include <algorithm>
#include <cstring>

#include "core/tokens/jinja/interp.hpp"
#include "core/tokens/jinja/print.hpp"

namespace sluice::tokens::jinja {

bool Interp::step() {
    if (failed()) {
        return false;
    }
    if (++steps_ > bounds_.steps) {
        fail(Code::Limit, "the template runs too long");
    } else if (arena_.exceeded()) {
        fail(Code::Limit, "the template uses too much memory");
    } else if (static_cast<const char*>(__builtin_frame_address(0)) < stack_floor_) {
        fail(Code::Invalid, "maximum recursion depth exceeded");
    }
    return !failed();
}

Value Interp::eval(const Expr& e) {
    if (e.kind == ExprKind::Constant) {
        return e.value;
    }
    return step() ? eval_node(e) : Value();
}

Value Interp::eval_node(const Expr& e) {
    switch (e.kind) {
        case ExprKind::Constant:
            return e.value;
        case ExprKind::Name:
            return lookup(e.id);
        case ExprKind::List:
        case ExprKind::Tuple:
        case ExprKind::Dict:
            return eval_literal(e);
        case ExprKind::Binary: {
            const Value a = eval(*e.a);
            const Value b = eval(*e.b);
            return failed() ? Value() : binary(e.op, a, b);
        }
        case ExprKind::Concat:
            return eval_concat(e);
        case ExprKind::Compare:
            return eval_compare(e);
        case ExprKind::And: {
            const Value a = eval(*e.a);
            return truthy(a) ? eval(*e.b) : a;
        }
        case ExprKind::Or: {
            const Value a = eval(*e.a);
            return truthy(a) ? a : eval(*e.b);
        }
        case ExprKind::Not:
            return Value::of(!truthy(eval(*e.a)));
        case ExprKind::Negate:
        case ExprKind::Plus: {
            const Value a = eval(*e.a);
            return failed() ? Value()
                            : binary(e.kind == ExprKind::Negate ? Op::Sub : Op::Add,
                                     a.is(Kind::Float)
                                         ? Value::of(e.kind == ExprKind::Negate ? -0.0 : 0.0)
                                         : Value::of(std::int64_t{0}),
                                     a);
        }
        case ExprKind::Condition:
            if (truthy(eval(*e.a))) {
                return eval(*e.b);
            }
            return e.c != nullptr ? eval(*e.c)
                                  : Value::undefined(
                                        "the inline if-expression evaluated to false "
                                        "and no else section was defined");
        case ExprKind::Attribute: {
            const Value a = eval(*e.a);
            if (a.is_dict() && e.method == 0) {
                const Value* found = find(*a.dict, e.name);
                return found != nullptr ? *found : Value::undefined(e.name, Kind::Dict);
            }
            return failed() ? Value() : attribute(a, e.name, static_cast<Method>(e.method));
        }
        case ExprKind::Item: {
            const Value a = eval(*e.a);
            const Value b = eval(*e.b);
            return failed() ? Value() : item(a, b);
        }
        case ExprKind::Slice:
            return eval_slice(e);
        case ExprKind::Call:
            return eval_call(e);
        case ExprKind::Filter:
            return eval_filter(e, nullptr);
        case ExprKind::Test: {
            const Value a = eval(*e.a);
            const Args args = eval_args(e);
            return failed() ? Value() : Value::of(test(e.function, e.name, a, args));
        }
    }
    return {};
}

Value Interp::lookup(std::uint32_t id) const {
    for (std::size_t i = locals_.size(); i > frame_; --i) {
        if (locals_[i - 1].id == id) {
            return locals_[i - 1].value;
        }
    }
    return globals_[id];
}

Value Interp::eval_literal(const Expr& e) {
    if (e.kind == ExprKind::Dict) {
        DictData* dict = make_dict(arena_, e.items.size() / 2);
        for (std::size_t i = 0; i + 1 < e.items.size(); i += 2) {
            const Value key = eval(*e.items[i]);
            const Value value = eval(*e.items[i + 1]);
            if (!failed() && !hashable(key)) {
                return type_error("unhashable type: '" + std::string(type_name(key)) + "'");
            }
            put(arena_, *dict, key, value);
        }
        return Value::of(dict);
    }
    ListData* items = list(e.items.size());
    for (const Expr* item : e.items) {
        push(*items, eval(*item));
    }
    return Value::of(items, e.kind == ExprKind::List ? Kind::List : Kind::Tuple);
}

Value Interp::eval_concat(const Expr& e) {
    Value out = text_like({}, str(eval(*e.items[0])), false);
    for (std::size_t i = 1; i < e.items.size(); ++i) {
        const std::string_view more = str(eval(*e.items[i]));
        if (failed()) {
            return {};
        }
        out = concat_text(out.str(), more, false);
    }
    return out;
}

Value Interp::eval_compare(const Expr& e) {
    Value left = eval(*e.a);
    for (const Operand& operand : e.operands) {
        const Value right = eval(*operand.value);
        if (failed() || !compare(operand.op, left, right)) {
            return Value::of(false);
        }
        left = right;
    }
    return Value::of(true);
}

Value Interp::eval_call(const Expr& e) {
    const Expr& callee = *e.a;
    if (callee.kind == ExprKind::Attribute && callee.method != 0) {
        const Value self = eval(*callee.a);
        const auto method = static_cast<Method>(callee.method);
        if (has_method(self.kind, method)) {
            const Args args = eval_args(e);
            return failed() ? Value() : call_method(*this, self, method, args);
        }
        const Value function = failed() ? Value() : attribute(self, callee.name, method);
        const Args args = eval_args(e);
        return failed() ? Value() : call(function, args);
    }
    const Value function = eval(callee);
    const Args args = eval_args(e);
    return failed() ? Value() : call(function, args);
}

Value Interp::eval_filter(const Expr& e, const Value* input) {
    // The innermost filter of a block's chain has no input expression: it gets the block's text.
    const Value in = e.a == nullptr                                      ? *input
                     : e.a->kind == ExprKind::Filter && input != nullptr ? eval_filter(*e.a, input)
                                                                         : eval(*e.a);
    const Args args = eval_args(e);
    return failed() ? Value() : filter(e.function, e.name, in, args);
}

Args Interp::eval_args(const Expr& e) {
    if (e.args.empty() && e.star == nullptr && e.star_star == nullptr) {
        return {};
    }
    std::span<const Value> star;
    std::span<const DictEntry> star_star;
    const std::size_t positional = static_cast<std::size_t>(
        std::ranges::count_if(e.args, [](const Argument& a) { return a.name.empty(); }));
    auto* values = arena_.array<Value>(positional);
    auto* named = arena_.array<KeywordArg>(e.args.size() - positional);
    std::size_t n = 0;
    std::size_t k = 0;
    if (values == nullptr || named == nullptr) {
        fail(Code::Limit, "the template uses too much memory");
        return {};
    }
    for (const Argument& a : e.args) {
        const Value v = eval(*a.value);
        if (a.name.empty()) {
            values[n++] = v;
        } else {
            new (&named[k++]) KeywordArg{a.name, v};
        }
    }
    if (e.star != nullptr) {
        star = items_of(eval(*e.star));
    }
    if (e.star_star != nullptr) {
        const Value v = eval(*e.star_star);
        if (!failed() && !v.is_dict()) {
            type_error("argument after ** must be a mapping, not " + std::string(type_name(v)));
        } else if (v.is_dict()) {
            star_star = v.dict->view();
        }
    }
    if (failed() || (star.empty() && star_star.empty())) {
        return {{values, n}, {named, k}};
    }
    auto* all = arena_.array<Value>(n + star.size());
    auto* all_named = arena_.array<KeywordArg>(k + star_star.size());
    if (all == nullptr || all_named == nullptr) {
        fail(Code::Limit, "the template uses too much memory");
        return {};
    }
    std::copy_n(values, n, all);
    std::ranges::copy(star, all + n);
    std::copy_n(named, k, all_named);
    for (const DictEntry& entry : star_star) {
        new (&all_named[k++]) KeywordArg{str(entry.key), entry.value};
    }
    return {{all, n + star.size()}, {all_named, k}};
}

Value Interp::eval_slice(const Expr& e) {
    const Value of = eval(*e.a);
    const Value from = e.b != nullptr ? eval(*e.b) : Value::none();
    const Value to = e.c != nullptr ? eval(*e.c) : Value::none();
    const Value by = e.d != nullptr ? eval(*e.d) : Value::none();
    return failed() ? Value() : slice(of, from, to, by);
}

}  // namespace sluice::tokens::jinja
