// Evaluates a template.
//
// A failure is sticky: fail() notes the first one, every value after it is Undefined, loops and
// calls end, and run() reports it. So only loops and large steps look at failed().
//
// Threads: one interpreter, one thread, one rendering.
// Errors:  Invalid with Python's wording for what Python refuses; Limit past a bound.
// Limits:  Bounds; stack use of kMaxStackBytes, kMaxCalls macro calls.
// Source:  Jinja2 3.1.6 in an ImmutableSandboxedEnvironment, as transformers sets it up.
#pragma once
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/tokens/jinja/ast.hpp"
#include "core/tokens/jinja/builtins.hpp"
#include "core/tokens/value.hpp"

namespace sluice::tokens::jinja {

struct Bounds {
    std::uint64_t steps = 20'000'000;
    std::size_t output_bytes = std::size_t{64} << 20U;
};

struct KeywordArg {
    std::string_view name;
    Value value;
};

struct Args {
    std::span<const Value> positional;
    std::span<const KeywordArg> named;
};

struct Binding {
    std::uint32_t id = 0;
    Value value;
};

}  // namespace sluice::tokens::jinja

namespace sluice::tokens {

struct LoopData {
    std::span<const Value> items;
    std::size_t index = 0;
    std::int64_t depth = 0;
    const jinja::Stmt* recursive = nullptr;
    Value last_seen;  // loop.changed
    bool has_seen = false;
};

struct MacroData {
    const jinja::MacroBody* body = nullptr;
    std::span<const jinja::Binding> closure;
};

struct MethodData {
    Value self;
    jinja::Method method = jinja::Method::None;
};

}  // namespace sluice::tokens

namespace sluice::tokens::jinja {

class Interp {
public:
    static constexpr std::size_t kMaxStackBytes = std::size_t{4} << 20U;
    static constexpr int kMaxCalls = 250;

    Interp(const Program& program, Arena& arena, const Bounds& bounds,
           const std::optional<std::tm>& clock);

    // A name the template never mentions is passed over.
    void set_variable(std::string_view name, Value v);
    Result<std::string> run();

    // What filters, tests and methods use.
    Arena& arena() { return arena_; }
    bool failed() const { return error_.has_value(); }
    Value fail(Code code, std::string what);
    Value type_error(std::string what) { return fail(Code::Invalid, std::move(what)); }
    // Accounts for work that is not an evaluation step of its own.
    void charge(std::uint64_t steps);
    std::size_t max_text() const { return bounds_.output_bytes; }
    std::tm now() const;

    // After printing `v` failed: no prompt can depend on an address, or it was too large.
    Value print_error(const Value& v);

    Value text(std::string_view s);  // a copy in the arena
    Value text_like(const Value& model, std::string_view s, bool copy);
    // str(v) as a view: of the value itself, or of a copy in the arena.
    std::string_view str(const Value& v);
    std::string repr(const Value& v);
    ListData* list(std::size_t capacity = 0) { return make_list(arena_, capacity); }
    void push(ListData& list, Value v);
    Value tuple(std::initializer_list<Value> items);
    // The items of anything iterable; a failure for what is not. Consumes a generator.
    std::span<const Value> items_of(const Value& v);
    static bool is_iterable(const Value& v);
    std::optional<std::int64_t> length(const Value& v);

    Value attribute(const Value& of, std::string_view name, Method method);
    Value item(const Value& of, const Value& key);
    // "a.b.0": each part an attribute or, in digits, an index; as map(attribute=...) takes it.
    Value path(Value of, const Value& dotted);
    Value call(const Value& callee, const Args& args);
    Value filter(int function, std::string_view name, const Value& input, const Args& args);
    bool test(int function, std::string_view name, const Value& subject, const Args& args);
    bool compare(Op op, const Value& a, const Value& b);
    // Python's <; a failure where Python has none.
    bool less(const Value& a, const Value& b);
    bool contains(const Value& container, const Value& item);
    Value binary(Op op, const Value& a, const Value& b);
    // Prints into the output.
    void emit(const Value& v);

private:
    enum class Flow : std::uint8_t { Next, Break, Continue };

    // A scope of variables, undone at its end.
    class Scope {
    public:
        explicit Scope(Interp& in)
            : in_(in), size_(in.locals_.size()), scope_(in.scope_), nested_(in.is_nested_) {
            in_.scope_ = size_;
            in_.is_nested_ = true;
        }
        ~Scope() {
            in_.locals_.resize(size_);
            in_.scope_ = scope_;
            in_.is_nested_ = nested_;
        }
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;

    private:
        Interp& in_;
        std::size_t size_;
        std::size_t scope_;
        bool nested_;
    };

    // interp.cpp: statements
    Flow exec(const Block& block);
    Flow exec(const Stmt& s);
    Flow exec_for(const Stmt& s, std::span<const Value> items, std::int64_t depth);
    void assign(const Target& target, const Value& v);
    void set_local(std::uint32_t id, const Value& v);
    // Runs a block and takes its output back.
    Flow capture(const Block& block, Value& out);
    Value make_macro(const MacroBody& body);
    Value call_macro(const MacroData& macro, const Args& args);
    Value call_loop(LoopData& loop, const Args& args);

    // eval.cpp: expressions
    Value eval(const Expr& e);
    Value eval_node(const Expr& e);
    Value lookup(std::uint32_t id) const;
    Value eval_concat(const Expr& e);
    Value eval_compare(const Expr& e);
    Value eval_call(const Expr& e);
    Value eval_literal(const Expr& e);
    Value eval_filter(const Expr& e, const Value* input);
    Args eval_args(const Expr& e);
    Value eval_slice(const Expr& e);
    bool step();

    // ops.cpp
    Value add(const Value& a, const Value& b);
    Value arithmetic(Op op, const Value& a, const Value& b);
    Value repeat(const Value& v, std::int64_t times);
    Value concat_text(std::string_view a, std::string_view b, bool is_markup);

    // access.cpp
    Value slice(const Value& of, const Value& from, const Value& to, const Value& by);
    Value loop_attribute(const Value& loop, std::string_view name);
    Value call_function(const Value& callee, const Args& args);

    const Program& program_;
    Arena& arena_;
    const Bounds bounds_;
    const std::optional<std::tm>& clock_;
    std::optional<Error> error_;
    std::string out_;
    std::vector<Value> globals_;  // by name id: context variables and what the top level sets
    std::vector<Binding> locals_;
    std::size_t frame_ = 0;   // locals of this macro call begin here
    std::size_t scope_ = 0;   // locals of this scope begin here
    bool is_nested_ = false;  // in a scope: set makes locals
    int calls_ = 0;
    std::uint64_t steps_ = 0;
    const char* stack_floor_ = nullptr;
};

// methods_*.cpp
Value call_method(Interp& in, const Value& self, Method method, const Args& args);

}  // namespace sluice::tokens::jinja
