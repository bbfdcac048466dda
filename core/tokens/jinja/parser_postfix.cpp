#include <charconv>

#include "core/tokens/jinja/builtins.hpp"
#include "core/tokens/jinja/parser.hpp"

namespace sluice::tokens::jinja {

Expr* Parser::postfix(Expr* node) {
    while (!failed()) {
        if (is_op(".") || is_op("[")) {
            node = subscript(node);
        } else if (is_op("(")) {
            node = call(node);
        } else {
            break;
        }
    }
    return node;
}

Expr* Parser::filters(Expr* node) {
    while (!failed()) {
        if (is_op("|")) {
            node = filter(node, false);
        } else if (is_name("is")) {
            node = test(node);
        } else if (is_op("(")) {
            node = call(node);
        } else {
            break;
        }
    }
    return node;
}

Expr* Parser::subscript(Expr* node) {
    if (skip_op(".")) {
        const Token name = next();
        if (name.kind == Tok::Name) {
            Expr* e = make(ExprKind::Attribute);
            e->a = node;
            e->name = name.text;
            e->method = static_cast<std::uint16_t>(method_named(name.text));
            return e;
        }
        Expr* e = make(ExprKind::Item);
        e->a = node;
        e->b = make(ExprKind::Constant);
        std::int64_t index = 0;
        if (name.kind != Tok::Integer ||
            std::from_chars(name.text.data(), name.text.data() + name.text.size(), index).ec !=
                std::errc()) {
            fail("expected name or number");
        }
        e->b->value = Value::of(index);
        return e;
    }
    expect_op("[");
    Expr* e = subscripted(node);
    if (is_op(",")) {  // a[1, 2] is a look-up of a tuple
        if (e->kind == ExprKind::Slice) {
            fail("a slice cannot be part of a tuple");
        }
        Expr* key = make(ExprKind::Tuple);
        key->items.push_back(e->b);
        while (!failed() && skip_op(",")) {
            key->items.push_back(expression());
        }
        e->b = key;
    }
    expect_op("]");
    return e;
}

Expr* Parser::subscripted(Expr* node) {
    Expr* start = is_op(":") ? nullptr : expression();
    if (!is_op(":")) {
        Expr* e = make(ExprKind::Item);
        e->a = node;
        e->b = start;
        return e;
    }
    Expr* e = make(ExprKind::Slice);
    e->a = node;
    e->b = start;
    next();
    if (!is_op(":") && !is_op("]") && !is_op(",")) {
        e->c = expression();
    }
    if (skip_op(":") && !is_op("]") && !is_op(",")) {
        e->d = expression();
    }
    return e;
}

Expr* Parser::call(Expr* node) {
    Expr* e = make(ExprKind::Call);
    e->a = node;
    call_arguments(*e);
    return e;
}

void Parser::call_arguments(Expr& out) {
    expect_op("(");
    bool is_first = true;
    bool has_names = false;
    while (!failed() && !is_op(")")) {
        if (!is_first) {
            expect_op(",");
            if (is_op(")")) {
                break;
            }
        }
        is_first = false;
        if (skip_op("**")) {
            if (out.star_star != nullptr) {
                fail("invalid syntax for function call expression");
            }
            out.star_star = expression();
        } else if (skip_op("*")) {
            if (out.star != nullptr || out.star_star != nullptr) {
                fail("invalid syntax for function call expression");
            }
            out.star = expression();
        } else if (peek().kind == Tok::Name && is_op("=", 1)) {
            Argument argument;
            argument.name = next().text;
            next();
            argument.value = expression();
            out.args.push_back(argument);
            has_names = true;
        } else {
            if (has_names || out.star != nullptr || out.star_star != nullptr) {
                fail("invalid syntax for function call expression");
            }
            out.args.push_back(Argument{{}, expression()});
        }
    }
    expect_op(")");
}

Expr* Parser::filter(Expr* input, bool is_inline) {
    while (!failed() && (is_inline || is_op("|"))) {
        if (!is_inline) {
            next();
        }
        is_inline = false;
        Expr* e = make(ExprKind::Filter);
        e->a = input;
        e->name = expect_name();
        e->function = filter_named(e->name);
        if (e->function == kUnknown && soft_ == 0) {
            fail("No filter named '" + std::string(e->name) + "'.");
        }
        if (is_op("(")) {
            call_arguments(*e);
        }
        input = e;
    }
    return input;
}

Expr* Parser::test(Expr* subject) {
    next();  // "is"
    const bool is_negated = skip_name("not");
    Expr* e = make(ExprKind::Test);
    e->a = subject;
    e->name = expect_name();
    e->function = test_named(e->name);
    if (e->function == kUnknown && soft_ == 0) {
        fail("No test named '" + std::string(e->name) + "'.");
    }
    const Tok kind = peek().kind;
    if (is_op("(")) {
        call_arguments(*e);
    } else if (kind == Tok::String || kind == Tok::Integer || kind == Tok::Float || is_op("[") ||
               is_op("{") ||
               (kind == Tok::Name && !is_name("else") && !is_name("or") && !is_name("and"))) {
        if (is_name("is")) {
            fail("You cannot chain multiple tests with is");
        }
        e->args.push_back(Argument{{}, postfix(primary())});
    }
    if (!is_negated) {
        return e;
    }
    Expr* negation = make(ExprKind::Not);
    negation->a = e;
    return negation;
}

}  // namespace sluice::tokens::jinja
