#include "core/tokens/jinja/parser.hpp"

#include <algorithm>
#include <utility>

namespace sluice::tokens::jinja {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
}

// Sets a counter for a scope and puts it back.
class Scoped {
public:
    Scoped(int& counter, int value) : counter_(counter), old_(counter) { counter_ = value; }
    ~Scoped() { counter_ = old_; }
    Scoped(const Scoped&) = delete;
    Scoped& operator=(const Scoped&) = delete;

private:
    int& counter_;
    int old_;
};

}  // namespace

Block Parser::parse_root() {
    Block root = statements({});
    if (!failed() && peek().kind != Tok::End) {
        fail("unexpected " + describe(peek()));
    }
    return root;
}

// Up to a block tag whose name is in `ends`; that name is the next token then.
Block Parser::statements(std::initializer_list<std::string_view> ends) {
    Block out;
    const Depth depth(*this);
    while (!failed()) {
        const Token& token = peek();
        if (token.kind == Tok::Text) {
            Stmt* s = make(StmtKind::Text);
            s->text = next().text;
            out.push_back(s);
        } else if (token.kind == Tok::VarBegin) {
            next();
            Stmt* s = make(StmtKind::Print);
            s->expr = tuple(true, false);
            expect(Tok::VarEnd, "the end of the print statement");
            out.push_back(s);
        } else if (token.kind == Tok::BlockBegin) {
            next();
            if (peek().kind == Tok::Name && is_one_of(peek().text, ends)) {
                return out;
            }
            if (Stmt* s = statement()) {
                out.push_back(s);
            }
            expect(Tok::BlockEnd, "the end of the statement block");
        } else {
            break;
        }
    }
    if (!failed() && ends.size() > 0) {
        fail("a block is not closed: expected '" + std::string(*(ends.end() - 1)) + "'");
    }
    return out;
}

Block Parser::body(std::initializer_list<std::string_view> ends) {
    skip_op(":");
    expect(Tok::BlockEnd, "the end of the statement block");
    return statements(ends);
}

Stmt* Parser::statement() {
    const Token name = peek();
    if (name.kind != Tok::Name) {
        fail("a tag name is expected, got " + describe(name));
        return nullptr;
    }
    next();
    if (name.text == "if") {
        return parse_if();
    }
    if (name.text == "for") {
        return parse_for();
    }
    if (name.text == "set") {
        return parse_set();
    }
    if (name.text == "macro") {
        return parse_macro();
    }
    if (name.text == "call") {
        return parse_call();
    }
    if (name.text == "filter") {
        return parse_filter();
    }
    if (name.text == "with") {
        return parse_with();
    }
    if (name.text == "print") {
        Stmt* s = make(StmtKind::Print);
        s->expr = tuple(true, false);
        return s;
    }
    if (name.text == "generation") {
        Stmt* s = make(StmtKind::Generation);
        const Scoped soft(soft_, 0);
        const Scoped loops(loops_, 0);
        s->body = body({"endgeneration"});
        next();
        return s;
    }
    if (name.text == "break" || name.text == "continue") {
        if (loops_ == 0) {
            fail("'" + std::string(name.text) + "' outside of a loop");
        }
        return make(name.text == "break" ? StmtKind::Break : StmtKind::Continue);
    }
    fail("Encountered unknown tag '" + std::string(name.text) + "'.");
    return nullptr;
}

Stmt* Parser::parse_if() {
    Stmt* s = make(StmtKind::If);
    const Scoped soft(soft_, soft_ + 1);
    for (;;) {
        Branch& branch = s->branches.emplace_back();
        branch.test = tuple(false, false);
        branch.body = body({"elif", "else", "endif"});
        const std::string_view end = next().text;
        if (failed() || end == "endif") {
            return s;
        }
        if (end == "else") {
            s->orelse = body({"endif"});
            next();
            return s;
        }
    }
}

Stmt* Parser::parse_for() {
    Stmt* s = make(StmtKind::For);
    s->target = target(false, "in");
    if (!skip_name("in")) {
        fail("expected 'in', got " + describe(peek()));
    }
    s->expr = tuple(false, false, "recursive");
    const Scoped soft(soft_, 0);
    if (skip_name("if")) {
        s->test = expression();
    }
    s->is_recursive = skip_name("recursive");
    {
        const Scoped loops(loops_, loops_ + 1);
        s->body = body({"else", "endfor"});
    }
    if (next().text == "else") {
        s->orelse = body({"endfor"});
        next();
    }
    return s;
}

Stmt* Parser::parse_set() {
    Stmt* s = make(StmtKind::Set);
    s->target = target(true);
    if (skip_op("=")) {
        s->expr = tuple(true, false);
        return s;
    }
    s->kind = StmtKind::SetBlock;
    if (is_op("|")) {
        s->expr = filter(nullptr, false);
    }
    const Scoped soft(soft_, 0);
    s->body = body({"endset"});
    next();
    return s;
}

void Parser::signature(MacroBody& macro) {
    expect_op("(");
    bool has_fallback = false;
    while (!failed() && !is_op(")")) {
        if (!macro.parameters.empty()) {
            expect_op(",");
        }
        Parameter& p = macro.parameters.emplace_back();
        p.name = expect_name();
        p.id = program_.intern(p.name);
        if (skip_op("=")) {
            has_fallback = true;
            p.fallback = expression();
        } else if (has_fallback) {
            fail("non-default argument follows default argument");
        }
    }
    expect_op(")");
}

// Notes which of the names that collect arguments the tokens since `from` mention.
void Parser::finish_macro(MacroBody& macro, std::size_t from) {
    for (std::size_t i = from; i < at_ && !failed(); ++i) {
        if (tokens_[i].kind == Tok::Name) {
            macro.takes_varargs = macro.takes_varargs || tokens_[i].text == "varargs";
            macro.takes_kwargs = macro.takes_kwargs || tokens_[i].text == "kwargs";
            macro.takes_caller = macro.takes_caller || tokens_[i].text == "caller";
        }
    }
    const auto names = [&](std::string_view name) {
        return std::ranges::any_of(macro.parameters,
                                   [&](const Parameter& p) { return p.name == name; });
    };
    macro.takes_varargs = macro.takes_varargs && !names("varargs");
    macro.takes_kwargs = macro.takes_kwargs && !names("kwargs");
    macro.takes_caller = macro.takes_caller && !names("caller");
}

Stmt* Parser::parse_macro() {
    Stmt* s = make(StmtKind::Macro);
    s->macro.name = expect_name();
    s->id = program_.intern(s->macro.name);
    const Scoped soft(soft_, 0);
    const Scoped loops(loops_, 0);
    signature(s->macro);
    const std::size_t from = at_;
    const Stmt* outer = std::exchange(owner_, s);
    s->macro.body = body({"endmacro"});
    owner_ = outer;
    finish_macro(s->macro, from);
    next();
    return s;
}

Stmt* Parser::parse_call() {
    Stmt* s = make(StmtKind::CallBlock);
    s->macro.name = "caller";
    if (is_op("(")) {
        signature(s->macro);
    }
    s->expr = expression();
    if (!failed() && s->expr->kind != ExprKind::Call) {
        fail("expected call");
    }
    const Scoped soft(soft_, 0);
    const Scoped loops(loops_, 0);
    const std::size_t from = at_;
    s->macro.body = body({"endcall"});
    finish_macro(s->macro, from);
    next();
    return s;
}

Stmt* Parser::parse_filter() {
    Stmt* s = make(StmtKind::FilterBlock);
    const Scoped soft(soft_, 0);
    s->expr = filter(nullptr, true);
    s->body = body({"endfilter"});
    next();
    return s;
}

Stmt* Parser::parse_with() {
    Stmt* s = make(StmtKind::With);
    const Scoped soft(soft_, 0);
    while (!failed() && peek().kind != Tok::BlockEnd) {
        if (!s->targets.empty()) {
            expect_op(",");
        }
        s->targets.push_back(target(false));
        expect_op("=");
        s->values.push_back(expression());
    }
    s->body = body({"endwith"});
    next();
    return s;
}

Target Parser::single_target(bool with_namespace) {
    Target t;
    const Depth depth(*this);
    if (failed()) {
        return t;
    }
    if (skip_op("(")) {
        t = target(with_namespace);
        expect_op(")");
        return t;
    }
    const std::string_view name = expect_name();
    t.id = program_.intern(name);
    if (with_namespace && is_op(".")) {
        next();
        t.kind = Target::Kind::Namespace;
        t.name = expect_name();
    } else if (is_one_of(name, {"true", "false", "none", "True", "False", "None"})) {
        fail("can't assign to '" + std::string(name) + "'");
    }
    return t;
}

Target Parser::target(bool with_namespace, std::string_view end_name) {
    Target first = single_target(with_namespace);
    if (!is_op(",")) {
        return first;
    }
    Target out;
    out.kind = Target::Kind::Tuple;
    out.items.push_back(std::move(first));
    while (!failed() && skip_op(",")) {
        if (is_op("=") || is_op(")") || (!end_name.empty() && is_name(end_name))) {
            break;
        }
        out.items.push_back(single_target(with_namespace));
    }
    return out;
}

}  // namespace sluice::tokens::jinja
