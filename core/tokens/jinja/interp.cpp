#include "core/tokens/jinja/interp.hpp"

#include <algorithm>
#include <cstring>

#include "core/tokens/jinja/print.hpp"

namespace sluice::tokens::jinja {

Interp::Interp(const Program& program, Arena& arena, const Bounds& bounds,
               const std::optional<std::tm>& clock)
    : program_(program), arena_(arena), bounds_(bounds), clock_(clock) {
    globals_.reserve(program.names.size());
    for (const std::string_view name : program.names) {
        globals_.push_back(global_named(name));
    }
    locals_.reserve(32);
}

void Interp::set_variable(std::string_view name, Value v) {
    if (const auto at = program_.ids.find(name); at != program_.ids.end()) {
        globals_[at->second] = v;
    }
}

Result<std::string> Interp::run() {
    stack_floor_ = static_cast<const char*>(__builtin_frame_address(0)) - kMaxStackBytes;
    exec(program_.root);
    if (error_) {
        return std::move(*error_);
    }
    return std::move(out_);
}

Value Interp::fail(Code code, std::string what) {
    if (!error_) {
        error_ = Error{code, std::move(what)};
    }
    return {};
}

void Interp::charge(std::uint64_t steps) {
    steps_ += steps;
    if (steps_ > bounds_.steps) {
        fail(Code::Limit, "the template runs too long");
    }
}

std::tm Interp::now() const {
    if (clock_) {
        return *clock_;
    }
    const std::time_t t = std::time(nullptr);
    std::tm local{};
    localtime_r(&t, &local);
    return local;
}

void Interp::emit(const Value& v) {
    if (!append_str(out_, v, bounds_.output_bytes)) {
        print_error(v);
    }
}

Value Interp::print_error(const Value& v) {
    if (v.is(Kind::Generator) || v.is(Kind::Method) || v.is(Kind::Function)) {
        return fail(Code::Unsupported, "the template prints a " + std::string(type_name(v)));
    }
    return fail(Code::Limit, "the rendered text is too large");
}

Interp::Flow Interp::exec(const Block& block) {
    for (const Stmt* s : block) {
        const Flow flow = exec(*s);
        if (flow != Flow::Next || failed()) {
            return flow;
        }
    }
    return Flow::Next;
}

Interp::Flow Interp::exec(const Stmt& s) {
    if (!step()) {
        return Flow::Break;
    }
    switch (s.kind) {
        case StmtKind::Text:
            out_.append(s.text);
            if (out_.size() > bounds_.output_bytes) {
                fail(Code::Limit, "the rendered text is too large");
            }
            break;
        case StmtKind::Print: {
            const Value v = eval(*s.expr);
            if (!failed()) {
                emit(v);
            }
            break;
        }
        case StmtKind::If:
            for (const Branch& branch : s.branches) {
                if (truthy(eval(*branch.test))) {
                    return exec(branch.body);
                }
                if (failed()) {
                    return Flow::Break;
                }
            }
            return exec(s.orelse);
        case StmtKind::For: {
            const Value iterable = eval(*s.expr);
            return exec_for(s, items_of(iterable), 1);
        }
        case StmtKind::Set:
            assign(s.target, eval(*s.expr));
            break;
        case StmtKind::SetBlock:
        case StmtKind::FilterBlock: {
            Value text;
            Flow flow = Flow::Next;
            {
                const Scope scope(*this);
                flow = capture(s.body, text);
            }
            if (flow != Flow::Next || failed()) {
                return flow;
            }
            if (s.expr != nullptr) {
                text = eval_filter(*s.expr, &text);
            }
            if (s.kind == StmtKind::SetBlock) {
                assign(s.target, text);
            } else if (!failed()) {
                emit(text);
            }
            break;
        }
        case StmtKind::Macro:
            set_local(s.id, make_macro(s.macro));
            break;
        case StmtKind::CallBlock: {
            Args args = eval_args(*s.expr);
            const Value callee = eval(*s.expr->a);
            auto* named = arena_.array<KeywordArg>(args.named.size() + 1);
            if (named == nullptr || failed()) {
                return Flow::Break;
            }
            std::ranges::copy(args.named, named);
            named[args.named.size()] = KeywordArg{"caller", make_macro(s.macro)};
            args.named = {named, args.named.size() + 1};
            const Value v = call(callee, args);
            if (!failed()) {
                emit(v);
            }
            break;
        }
        case StmtKind::With: {
            std::vector<Value> values;
            for (const Expr* e : s.values) {
                values.push_back(eval(*e));
            }
            const Scope scope(*this);
            for (std::size_t i = 0; i < values.size(); ++i) {
                assign(s.targets[i], values[i]);
            }
            return exec(s.body);
        }
        case StmtKind::Generation: {
            const Scope scope(*this);
            exec(s.body);
            break;
        }
        case StmtKind::Break:
            return Flow::Break;
        case StmtKind::Continue:
            return Flow::Continue;
    }
    return Flow::Next;
}

Interp::Flow Interp::exec_for(const Stmt& s, std::span<const Value> items, std::int64_t depth) {
    if (s.test != nullptr) {
        ListData* kept = list();
        for (const Value& v : items) {
            const Scope scope(*this);
            assign(s.target, v);
            if (truthy(eval(*s.test))) {
                push(*kept, v);
            }
            if (failed()) {
                return Flow::Break;
            }
        }
        items = kept->view();
    }
    if (items.empty()) {
        if (s.orelse.empty()) {
            return Flow::Next;
        }
        const Scope scope(*this);
        return exec(s.orelse);
    }
    auto* loop = arena_.make<LoopData>();
    loop->items = items;
    loop->depth = depth;
    loop->recursive = s.is_recursive ? &s : nullptr;
    Value loop_value = Value::of(Kind::Loop);
    loop_value.loop = loop;
    for (; loop->index < items.size(); ++loop->index) {
        const Scope scope(*this);
        locals_.push_back(Binding{program_.loop_id, loop_value});
        assign(s.target, items[loop->index]);
        const Flow flow = exec(s.body);
        if (flow == Flow::Break || failed()) {
            break;
        }
    }
    return Flow::Next;
}

void Interp::set_local(std::uint32_t id, const Value& v) {
    if (!is_nested_) {
        globals_[id] = v;
        return;
    }
    for (std::size_t i = scope_; i < locals_.size(); ++i) {
        if (locals_[i].id == id) {
            locals_[i].value = v;
            return;
        }
    }
    locals_.push_back(Binding{id, v});
}

void Interp::assign(const Target& target, const Value& v) {
    if (failed()) {
        return;
    }
    switch (target.kind) {
        case Target::Kind::Name:
            set_local(target.id, v);
            break;
        case Target::Kind::Namespace: {
            const Value space = lookup(target.id);
            if (!space.is(Kind::Namespace)) {
                type_error("cannot assign attribute on non-namespace object");
            } else if (!put(arena_, *space.dict, target.name, v)) {
                fail(Code::Limit, "the template uses too much memory");
            }
            break;
        }
        case Target::Kind::Tuple: {
            const auto items = items_of(v);
            if (failed()) {
                break;
            }
            if (items.size() != target.items.size()) {
                type_error(items.size() > target.items.size()
                               ? "too many values to unpack (expected " +
                                     std::to_string(target.items.size()) + ")"
                               : "not enough values to unpack (expected " +
                                     std::to_string(target.items.size()) + ", got " +
                                     std::to_string(items.size()) + ")");
                break;
            }
            for (std::size_t i = 0; i < items.size(); ++i) {
                assign(target.items[i], items[i]);
            }
            break;
        }
    }
}

Interp::Flow Interp::capture(const Block& block, Value& out) {
    const std::size_t mark = out_.size();
    const Flow flow = exec(block);
    out = text(std::string_view(out_).substr(mark));
    out_.resize(mark);
    return flow;
}

// The scopes around a macro are kept as they are where it is defined; the top level stays shared.
Value Interp::make_macro(const MacroBody& body) {
    auto* macro = arena_.make<MacroData>();
    macro->body = &body;
    const std::size_t n = locals_.size() - frame_;
    if (n > 0) {
        auto* kept = arena_.array<Binding>(n);
        if (kept == nullptr) {
            return fail(Code::Limit, "the template uses too much memory");
        }
        std::copy(locals_.begin() + static_cast<std::ptrdiff_t>(frame_), locals_.end(), kept);
        macro->closure = {kept, n};
    }
    Value v = Value::of(Kind::Macro);
    v.macro = macro;
    return v;
}

Value Interp::call_macro(const MacroData& macro, const Args& args) {
    const MacroBody& body = *macro.body;
    if (failed()) {
        return {};
    }
    if (calls_ >= kMaxCalls) {
        return fail(Code::Invalid, "maximum recursion depth exceeded");
    }
    const Scope scope(*this);
    const std::size_t old_frame = frame_;
    frame_ = locals_.size();
    ++calls_;
    locals_.insert(locals_.end(), macro.closure.begin(), macro.closure.end());
    scope_ = locals_.size();

    const std::size_t n = body.parameters.size();
    for (std::size_t i = 0; i < n; ++i) {
        const Parameter& p = body.parameters[i];
        const auto named = std::ranges::find(args.named, p.name, &KeywordArg::name);
        Value v = Value::undefined(p.name);
        if (i < args.positional.size()) {
            v = args.positional[i];
            if (named != args.named.end()) {
                type_error("macro '" + std::string(body.name) + "' takes '" + std::string(p.name) +
                           "' twice");
            }
        } else if (named != args.named.end()) {
            v = named->value;
        } else if (p.fallback != nullptr) {
            v = eval(*p.fallback);
        }
        locals_.push_back(Binding{p.id, v});
    }
    if (args.positional.size() > n && !body.takes_varargs) {
        type_error("macro '" + std::string(body.name) + "' takes not more than " +
                   std::to_string(n) + " argument(s)");
    }
    DictData* rest = body.takes_kwargs ? make_dict(arena_, 0) : nullptr;
    Value caller = Value::undefined("caller");
    for (const KeywordArg& named : args.named) {
        if (std::ranges::find(body.parameters, named.name, &Parameter::name) !=
            body.parameters.end()) {
            continue;
        }
        if (named.name == "caller" && body.takes_caller) {
            caller = named.value;
        } else if (rest != nullptr) {
            put(arena_, *rest, named.name, named.value);
        } else {
            type_error("macro '" + std::string(body.name) + "' takes no keyword argument '" +
                       std::string(named.name) + "'");
        }
    }
    if (body.takes_caller) {
        locals_.push_back(Binding{program_.caller_id, caller});
    }
    if (rest != nullptr) {
        locals_.push_back(Binding{program_.kwargs_id, Value::of(rest)});
    }
    if (body.takes_varargs) {
        ListData* more = list();
        for (std::size_t i = n; i < args.positional.size(); ++i) {
            push(*more, args.positional[i]);
        }
        locals_.push_back(Binding{program_.varargs_id, Value::of(more, Kind::Tuple)});
    }
    Value out = Value::of(std::string_view(""));
    if (!failed()) {
        capture(body.body, out);
    }
    --calls_;
    frame_ = old_frame;
    return out;
}

Value Interp::call_loop(LoopData& loop, const Args& args) {
    if (loop.recursive == nullptr) {
        return type_error("The loop must have the 'recursive' marker to be called recursively.");
    }
    if (args.positional.size() != 1 || !args.named.empty()) {
        return type_error("loop() takes exactly one argument");
    }
    if (++calls_ > kMaxCalls) {
        fail(Code::Invalid, "maximum recursion depth exceeded");
    }
    const std::size_t mark = out_.size();
    if (!failed()) {
        exec_for(*loop.recursive, items_of(args.positional[0]), loop.depth + 1);
    }
    --calls_;
    const Value out = text(std::string_view(out_).substr(mark));
    out_.resize(mark);
    return out;
}

}  // namespace sluice::tokens::jinja
