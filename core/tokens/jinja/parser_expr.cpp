#include <charconv>

#include "core/tokens/jinja/parser.hpp"

namespace sluice::tokens::jinja {

Expr* Parser::binary(Op op, Expr* a, Expr* b) {
    Expr* e = make(ExprKind::Binary);
    e->op = op;
    e->a = a;
    e->b = b;
    return e;
}

Expr* Parser::expression(bool with_condition) {
    return with_condition ? condition() : logical_or();
}

Expr* Parser::condition() {
    const Depth depth(*this);
    if (failed()) {
        return make(ExprKind::Constant);
    }
    // That unknown filters and tests are allowed is only known at an "if" that follows, so both
    // sides are read as if they were, and looked at again.
    const Token start = peek();
    const std::size_t first = program_.exprs.size();
    ++soft_;
    Expr* value = logical_or();
    if (!is_name("if")) {
        --soft_;
        for (std::size_t i = first; i < program_.exprs.size() && soft_ == 0 && !failed(); ++i) {
            const Expr& e = program_.exprs[i];
            if (e.function == kUnknown) {
                fail((e.kind == ExprKind::Filter ? "No filter named '" : "No test named '") +
                         std::string(e.name) + "'.",
                     start);
            }
        }
        return value;
    }
    while (!failed() && skip_name("if")) {
        Expr* e = make(ExprKind::Condition);
        e->b = value;
        e->a = logical_or();
        if (skip_name("else")) {
            e->c = condition();
        }
        value = e;
    }
    --soft_;
    for (std::size_t i = first; i < program_.exprs.size(); ++i) {
        Expr& e = program_.exprs[i];
        e.function = e.function == kUnknown ? kUnknownAllowed : e.function;
    }
    return value;
}

Expr* Parser::logical_or() {
    Expr* left = logical_and();
    while (!failed() && skip_name("or")) {
        Expr* e = make(ExprKind::Or);
        e->a = left;
        e->b = logical_and();
        left = e;
    }
    return left;
}

Expr* Parser::logical_and() {
    Expr* left = logical_not();
    while (!failed() && skip_name("and")) {
        Expr* e = make(ExprKind::And);
        e->a = left;
        e->b = logical_not();
        left = e;
    }
    return left;
}

Expr* Parser::logical_not() {
    const Depth depth(*this);
    if (!failed() && skip_name("not")) {
        Expr* e = make(ExprKind::Not);
        e->a = logical_not();
        return e;
    }
    return comparison();
}

Expr* Parser::comparison() {
    Expr* left = sum();
    Expr* out = nullptr;
    while (!failed()) {
        Op op = Op::None;
        static constexpr struct {
            std::string_view text;
            Op op;
        } kOps[] = {{"==", Op::Eq}, {"!=", Op::Ne}, {"<", Op::Lt},
                    {"<=", Op::Le}, {">", Op::Gt},  {">=", Op::Ge}};
        for (const auto& candidate : kOps) {
            if (is_op(candidate.text)) {
                op = candidate.op;
            }
        }
        if (is_name("in")) {
            op = Op::In;
        } else if (is_name("not") && is_name("in", 1)) {
            next();
            op = Op::NotIn;
        }
        if (op == Op::None) {
            break;
        }
        next();
        if (out == nullptr) {
            out = make(ExprKind::Compare);
            out->a = left;
        }
        Expr* right = sum();
        out->operands.push_back(Operand{op, right});
    }
    return out == nullptr ? left : out;
}

Expr* Parser::sum() {
    Expr* left = concat();
    while (!failed() && (is_op("+") || is_op("-"))) {
        const Op op = next().text == "+" ? Op::Add : Op::Sub;
        left = binary(op, left, concat());
    }
    return left;
}

Expr* Parser::concat() {
    Expr* first = product();
    if (!is_op("~")) {
        return first;
    }
    Expr* e = make(ExprKind::Concat);
    e->items.push_back(first);
    while (!failed() && skip_op("~")) {
        e->items.push_back(product());
    }
    return e;
}

Expr* Parser::product() {
    Expr* left = power();
    while (!failed()) {
        const Op op = is_op("*")    ? Op::Mul
                      : is_op("/")  ? Op::Div
                      : is_op("//") ? Op::FloorDiv
                      : is_op("%")  ? Op::Mod
                                    : Op::None;
        if (op == Op::None) {
            break;
        }
        next();
        left = binary(op, left, power());
    }
    return left;
}

Expr* Parser::power() {
    Expr* left = unary(true);
    while (!failed() && skip_op("**")) {
        left = binary(Op::Pow, left, unary(true));
    }
    return left;
}

Expr* Parser::unary(bool with_filter) {
    const Depth depth(*this);
    Expr* node = nullptr;
    if (!failed() && (is_op("-") || is_op("+"))) {
        node = make(next().text == "-" ? ExprKind::Negate : ExprKind::Plus);
        node->a = unary(false);
    } else {
        node = primary();
    }
    node = postfix(node);
    return with_filter ? filters(node) : node;
}

Expr* Parser::primary() {
    Expr* e = make(ExprKind::Constant);
    const Token token = peek();
    if (failed()) {
        return e;
    }
    switch (token.kind) {
        case Tok::Name:
            next();
            if (token.text == "true" || token.text == "True") {
                e->value = Value::of(true);
            } else if (token.text == "false" || token.text == "False") {
                e->value = Value::of(false);
            } else if (token.text == "none" || token.text == "None") {
                e->value = Value::none();
            } else {
                e->kind = ExprKind::Name;
                e->name = token.text;
                e->id = program_.intern(token.text);
            }
            return e;
        case Tok::String: {
            next();
            if (peek().kind != Tok::String) {
                e->value = Value::of(token.text);
                return e;
            }
            std::string joined(token.text);
            while (peek().kind == Tok::String) {
                joined += next().text;
            }
            e->value = Value::of(std::string_view(program_.pool.emplace_back(std::move(joined))));
            return e;
        }
        case Tok::Integer: {
            next();
            std::int64_t v = 0;
            const char* end = token.text.data() + token.text.size();
            if (std::from_chars(token.text.data(), end, v).ec == std::errc()) {
                e->value = Value::of(v);
            } else {
                e->value = Value::of(token.text, Kind::BigInt);
            }
            return e;
        }
        case Tok::Float: {
            next();
            double v = 0;
            std::from_chars(token.text.data(), token.text.data() + token.text.size(), v);
            e->value = Value::of(v);
            return e;
        }
        case Tok::Op:
            if (token.text == "(") {
                next();
                Expr* inner = tuple(true, true);
                expect_op(")");
                return inner;
            }
            if (token.text == "[") {
                return list_literal();
            }
            if (token.text == "{") {
                return dict_literal();
            }
            break;
        default:
            break;
    }
    fail("unexpected " + describe(token));
    return e;
}

Expr* Parser::list_literal() {
    Expr* e = make(ExprKind::List);
    expect_op("[");
    while (!failed() && !is_op("]")) {
        if (!e->items.empty()) {
            expect_op(",");
        }
        if (is_op("]")) {
            break;
        }
        e->items.push_back(expression());
    }
    expect_op("]");
    return e;
}

Expr* Parser::dict_literal() {
    Expr* e = make(ExprKind::Dict);
    expect_op("{");
    while (!failed() && !is_op("}")) {
        if (!e->items.empty()) {
            expect_op(",");
        }
        if (is_op("}")) {
            break;
        }
        e->items.push_back(expression());
        expect_op(":");
        e->items.push_back(expression());
    }
    expect_op("}");
    return e;
}

bool Parser::is_tuple_end(std::string_view end_name) const {
    const Tok kind = peek().kind;
    return kind == Tok::VarEnd || kind == Tok::BlockEnd || kind == Tok::End || is_op(")") ||
           (!end_name.empty() && is_name(end_name));
}

// One expression, or several with commas between as a tuple.
Expr* Parser::tuple(bool with_condition, bool is_parenthesised, std::string_view end_name) {
    const Depth depth(*this);
    std::vector<Expr*> items;
    bool is_tuple = false;
    while (!failed()) {
        if (!items.empty()) {
            expect_op(",");
        }
        if (is_tuple_end(end_name)) {
            break;
        }
        items.push_back(expression(with_condition));
        if (!is_op(",")) {
            break;
        }
        is_tuple = true;
    }
    if (!is_tuple && !items.empty()) {
        return items.front();
    }
    if (items.empty() && !is_parenthesised) {
        fail("Expected an expression, got " + describe(peek()));
    }
    Expr* e = make(ExprKind::Tuple);
    e->items = std::move(items);
    return e;
}

}  // namespace sluice::tokens::jinja
