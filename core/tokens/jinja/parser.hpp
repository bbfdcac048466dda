// Tokens to a syntax tree, with Jinja's grammar.
//
// Threads: any.
// Errors:  Invalid with the line. An unknown filter or test is an error except directly within an
//          `if`, where it fails when it is reached (as Jinja compiles it).
// Limits:  nesting of kMaxNesting in expressions and blocks together.
// Source:  Jinja2 3.1.6, parser.py and compiler.py; extensions loopcontrols and `generation`.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/tokens/jinja/ast.hpp"
#include "core/tokens/jinja/lexer.hpp"

namespace sluice::tokens::jinja {

inline constexpr int kMaxNesting = 400;

Result<std::unique_ptr<const Program>> parse(std::string_view source);

// Used by parse(): the grammar over one token list.
class Parser {
public:
    Parser(Program& program, std::vector<Token> tokens)
        : program_(program), tokens_(std::move(tokens)) {}

    Block parse_root();
    const std::optional<Error>& error() const { return error_; }

private:
    // Counts nesting for its scope.
    struct Depth {
        explicit Depth(Parser& parser) : p(parser) {
            if (++p.depth_ > kMaxNesting) {
                p.fail("nested too deeply");
            }
        }
        ~Depth() { --p.depth_; }
        Depth(const Depth&) = delete;
        Depth& operator=(const Depth&) = delete;
        Parser& p;
    };

    // parser_tokens.cpp. The first error stands; the rest of the input is dropped, which ends every
    // loop.
    void fail(std::string what) { fail(std::move(what), peek()); }
    void fail(std::string what, const Token& at);
    bool failed() const { return error_.has_value(); }

    const Token& peek(std::size_t ahead = 0) const;
    Token next();
    bool is_op(std::string_view op, std::size_t ahead = 0) const;
    bool is_name(std::string_view name, std::size_t ahead = 0) const;
    bool skip_op(std::string_view op);
    bool skip_name(std::string_view name);
    void expect_op(std::string_view op);
    void expect(Tok kind, std::string_view what);
    std::string_view expect_name();
    std::string describe(const Token& token) const;

    Expr* make(ExprKind kind);
    Expr* binary(Op op, Expr* a, Expr* b);
    Stmt* make(StmtKind kind);

    // parser_expr.cpp and, from postfix() on, parser_postfix.cpp
    Expr* expression(bool with_condition = true);
    Expr* condition();
    Expr* logical_or();
    Expr* logical_and();
    Expr* logical_not();
    Expr* comparison();
    Expr* sum();
    Expr* concat();
    Expr* product();
    Expr* power();
    Expr* unary(bool with_filter);
    Expr* primary();
    Expr* postfix(Expr* node);
    Expr* filters(Expr* node);
    Expr* subscript(Expr* node);
    Expr* subscripted(Expr* node);
    Expr* call(Expr* node);
    void call_arguments(Expr& call);
    Expr* filter(Expr* input, bool is_inline);
    Expr* test(Expr* subject);
    Expr* list_literal();
    Expr* dict_literal();
    Expr* tuple(bool with_condition, bool is_parenthesised, std::string_view end_name = {});
    bool is_tuple_end(std::string_view end_name) const;

    // parser.cpp
    Block statements(std::initializer_list<std::string_view> ends);
    Block body(std::initializer_list<std::string_view> ends);
    Stmt* statement();
    Stmt* parse_if();
    Stmt* parse_for();
    Stmt* parse_set();
    Stmt* parse_macro();
    Stmt* parse_call();
    Stmt* parse_filter();
    Stmt* parse_with();
    void signature(MacroBody& macro);
    void finish_macro(MacroBody& macro, std::size_t from);
    Target target(bool with_namespace, std::string_view end_name = {});
    Target single_target(bool with_namespace);

    Program& program_;
    std::vector<Token> tokens_;
    std::size_t at_ = 0;
    int depth_ = 0;
    int loops_ = 0;                // `for` bodies around this place, within one macro
    int soft_ = 0;                 // > 0: directly within an `if`
    const Stmt* owner_ = nullptr;  // the macro being read
    std::optional<Error> error_;
};

}  // namespace sluice::tokens::jinja
