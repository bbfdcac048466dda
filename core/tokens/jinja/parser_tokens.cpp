#include <algorithm>

#include "core/tokens/jinja/parser.hpp"

namespace sluice::tokens::jinja {

std::uint32_t Program::intern(std::string_view name) {
    const auto [at, is_new] = ids.try_emplace(name, static_cast<std::uint32_t>(names.size()));
    if (is_new) {
        names.push_back(name);
    }
    return at->second;
}

Result<std::unique_ptr<const Program>> parse(std::string_view source) {
    auto program = std::make_unique<Program>();
    program->source = normalise_source(source);
    program->loop_id = program->intern("loop");
    program->caller_id = program->intern("caller");
    program->varargs_id = program->intern("varargs");
    program->kwargs_id = program->intern("kwargs");
    auto tokens = tokenize(program->source, program->pool);
    if (!tokens) {
        return std::move(tokens).error();
    }
    Parser parser(*program, std::move(tokens->tokens));
    program->root = parser.parse_root();
    if (parser.error()) {
        return *parser.error();
    }
    return std::unique_ptr<const Program>(std::move(program));
}

void Parser::fail(std::string what, const Token& at) {
    if (!error_) {
        error_ = Error{Code::Invalid, "line " + std::to_string(at.line) + ": " + what};
    }
    at_ = tokens_.size() - 1;
}

const Token& Parser::peek(std::size_t ahead) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Token Parser::next() {
    const Token token = peek();
    if (at_ + 1 < tokens_.size()) {
        ++at_;
    }
    return token;
}

bool Parser::is_op(std::string_view op, std::size_t ahead) const {
    return peek(ahead).kind == Tok::Op && peek(ahead).text == op;
}
bool Parser::is_name(std::string_view name, std::size_t ahead) const {
    return peek(ahead).kind == Tok::Name && peek(ahead).text == name;
}
bool Parser::skip_op(std::string_view op) {
    const bool is = is_op(op);
    if (is) {
        next();
    }
    return is;
}
bool Parser::skip_name(std::string_view name) {
    const bool is = is_name(name);
    if (is) {
        next();
    }
    return is;
}
void Parser::expect_op(std::string_view op) {
    if (!skip_op(op)) {
        fail("expected '" + std::string(op) + "', got " + describe(peek()));
    }
}
void Parser::expect(Tok kind, std::string_view what) {
    if (peek().kind != kind) {
        fail("expected " + std::string(what) + ", got " + describe(peek()));
        return;
    }
    next();
}
std::string_view Parser::expect_name() {
    if (peek().kind != Tok::Name) {
        fail("expected a name, got " + describe(peek()));
        return {};
    }
    return next().text;
}

std::string Parser::describe(const Token& token) const {
    switch (token.kind) {
        case Tok::Text:
            return "template text";
        case Tok::BlockBegin:
            return "'begin of statement block'";
        case Tok::BlockEnd:
            return "'end of statement block'";
        case Tok::VarBegin:
            return "'begin of print statement'";
        case Tok::VarEnd:
            return "'end of print statement'";
        case Tok::String:
            return "a string";
        case Tok::End:
            return "the end of the template";
        default:
            return "'" + std::string(token.text) + "'";
    }
}

Expr* Parser::make(ExprKind kind) {
    Expr& e = program_.exprs.emplace_back();
    e.kind = kind;
    e.line = peek().line;
    return &e;
}
Stmt* Parser::make(StmtKind kind) {
    Stmt& s = program_.stmts.emplace_back();
    s.kind = kind;
    s.line = peek().line;
    s.owner = owner_;
    return &s;
}

}  // namespace sluice::tokens::jinja
