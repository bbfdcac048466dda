// The syntax tree of a template. Built once, then read by any number of renderings.
//
// Threads: any once built.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tokens/value.hpp"

namespace sluice::tokens::jinja {

enum class Op : std::uint8_t {
    None,
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    NotIn,
};

enum class ExprKind : std::uint8_t {
    Constant,   // value
    Name,       // id
    List,       // items
    Tuple,      // items
    Dict,       // items: key, value, key, value, ...
    Binary,     // a op b
    Concat,     // items joined as text
    Compare,    // a, then operands: a op1 x1 and x1 op2 x2 ...
    And,        // a, b
    Or,         // a, b
    Not,        // a
    Negate,     // a
    Plus,       // a
    Condition,  // b if a else c (c may be null)
    Attribute,  // a.name
    Item,       // a[b]
    Slice,      // a[b:c:d], each may be null; `a` is the subject
    Call,       // a(args)
    Filter,     // a|name(args); `a` is null for the body of a filter block
    Test,       // a is name(args)
};

struct Expr;

struct Argument {
    std::string_view name;  // empty: positional
    Expr* value = nullptr;
};

struct Operand {
    Op op = Op::None;
    Expr* value = nullptr;
};

// Unknown filters and tests fail when the template is compiled, unless they may never be reached.
inline constexpr int kUnknown = -1;
inline constexpr int kUnknownAllowed = -2;
inline constexpr int kNoFunction = -3;

struct Expr {
    ExprKind kind = ExprKind::Constant;
    Op op = Op::None;
    std::uint16_t method = 0;  // Attribute: the Method of that name, 0 if there is none
    std::uint32_t line = 0;
    std::uint32_t id = 0;        // Name: index in Program::names
    int function = kNoFunction;  // Filter, Test: index in their tables, or unknown
    Expr* a = nullptr;
    Expr* b = nullptr;
    Expr* c = nullptr;
    Expr* d = nullptr;
    Value value;
    std::string_view name;
    std::vector<Expr*> items;
    std::vector<Operand> operands;
    std::vector<Argument> args;
    Expr* star = nullptr;       // *args
    Expr* star_star = nullptr;  // **kwargs
};

enum class StmtKind : std::uint8_t {
    Text,         // text
    Print,        // expr
    If,           // branches, orelse
    For,          // target, expr, test, body, orelse
    Set,          // target, expr
    SetBlock,     // target, expr (a filter chain or null), body
    Macro,        // id, macro
    CallBlock,    // expr (a Call), macro (the caller)
    FilterBlock,  // expr (a filter chain), body
    With,         // targets, values, body
    Generation,   // body, in a scope of its own
    Break,
    Continue,
};

struct Stmt;
using Block = std::vector<Stmt*>;

struct Target {
    enum class Kind : std::uint8_t { Name, Tuple, Namespace };
    Kind kind = Kind::Name;
    std::uint32_t id = 0;   // Name; Namespace: the variable
    std::string_view name;  // Namespace: the attribute
    std::vector<Target> items;
};

struct Branch {
    Expr* test = nullptr;
    Block body;
};

struct Parameter {
    std::uint32_t id = 0;
    std::string_view name;
    Expr* fallback = nullptr;
};

struct MacroBody {
    std::string_view name;
    std::vector<Parameter> parameters;
    Block body;
    bool takes_varargs = false;  // the body names varargs, kwargs, caller
    bool takes_kwargs = false;
    bool takes_caller = false;
};

struct Stmt {
    StmtKind kind = StmtKind::Text;
    std::uint32_t line = 0;
    std::uint32_t id = 0;
    bool is_recursive = false;
    const Stmt* owner = nullptr;  // the innermost macro it is in
    std::string_view text;
    Expr* expr = nullptr;
    Expr* test = nullptr;
    Target target;
    std::vector<Target> targets;
    std::vector<Expr*> values;
    std::vector<Branch> branches;
    Block body;
    Block orelse;
    MacroBody macro;
};

struct Program {
    std::string source;
    std::deque<std::string> pool;  // texts that are not in the source as they are
    std::deque<Expr> exprs;
    std::deque<Stmt> stmts;
    std::vector<std::string_view> names;  // every variable the template mentions
    std::unordered_map<std::string_view, std::uint32_t> ids;
    Block root;
    // Names with a meaning of their own; always interned.
    std::uint32_t loop_id = 0;
    std::uint32_t caller_id = 0;
    std::uint32_t varargs_id = 0;
    std::uint32_t kwargs_id = 0;

    std::uint32_t intern(std::string_view name);
};

}  // namespace sluice::tokens::jinja
