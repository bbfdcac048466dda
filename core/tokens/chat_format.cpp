#include "core/tokens/chat_format.hpp"

#include <algorithm>
#include <set>

namespace sluice::tokens {
namespace {

using jinja::Expr;
using jinja::ExprKind;
using jinja::Program;
using jinja::Stmt;
using jinja::StmtKind;
using jinja::Target;

using Names = std::set<std::uint32_t>;

// Filters, tests and slices do not hide what they are applied to.
const Expr* see_through(const Expr* e) {
    while (e != nullptr && (e->kind == ExprKind::Filter || e->kind == ExprKind::Test ||
                            e->kind == ExprKind::Slice)) {
        e = e->a;
    }
    return e;
}

bool is_variable(const Expr* e, const Names& names) {
    e = see_through(e);
    return e != nullptr && e->kind == ExprKind::Name && names.contains(e->id);
}

// x.content or x['content'] with x one of `owners`.
bool is_content_of(const Expr* e, const Names& owners) {
    e = see_through(e);
    if (e == nullptr || e->a == nullptr || e->a->kind != ExprKind::Name ||
        !owners.contains(e->a->id)) {
        return false;
    }
    if (e->kind == ExprKind::Attribute) {
        return e->name == "content";
    }
    return e->kind == ExprKind::Item && e->b->kind == ExprKind::Constant &&
           e->b->value.is_string() && e->b->value.str() == "content";
}

class Detector {
public:
    explicit Detector(const Program& program) : program_(program) {
        if (const auto at = program.ids.find("messages"); at != program.ids.end()) {
            lists_.insert(at->second);
        }
        follow_assignments(lists_);
        for (const Stmt& s : program.stmts) {
            if (s.kind == StmtKind::For && s.target.kind == Target::Kind::Name &&
                is_variable(s.expr, lists_)) {
                items_.insert(s.target.id);
            }
        }
        for (const Stmt& s : program.stmts) {
            if (is_named_set(s) && is_content_of(s.expr, items_)) {
                contents_.insert(s.target.id);
            }
        }
        if (const auto at = program.ids.find("content"); at != program.ids.end()) {
            contents_.insert(at->second);
        }
        follow_assignments(contents_);
    }

    bool loops_over_content() const {
        return std::ranges::any_of(program_.stmts, [this](const Stmt& s) {
            if (s.kind != StmtKind::For) {
                return false;
            }
            if (is_content_of(s.expr, items_)) {
                return true;
            }
            if (s.owner == nullptr) {
                return is_variable(s.expr, contents_);
            }
            return loops_over_parameter(*s.owner, s.expr);
        });
    }

private:
    static bool is_named_set(const Stmt& s) {
        return s.kind == StmtKind::Set && s.target.kind == Target::Kind::Name;
    }

    void follow_assignments(Names& names) const {
        for (bool grew = true; grew;) {
            grew = false;
            for (const Stmt& s : program_.stmts) {
                grew = (is_named_set(s) && is_variable(s.expr, names) &&
                        names.insert(s.target.id).second) ||
                       grew;
            }
        }
    }

    bool is_content(const Expr* e) const {
        return is_content_of(e, items_) || is_variable(e, contents_);
    }

    // Whether `iterated` is a parameter of `macro` that some call gives content to.
    bool loops_over_parameter(const Stmt& macro, const Expr* iterated) const {
        const auto& parameters = macro.macro.parameters;
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            if (!is_variable(iterated, {parameters[i].id})) {
                continue;
            }
            for (const Expr& call : program_.exprs) {
                if (call.kind != ExprKind::Call || call.a->kind != ExprKind::Name ||
                    call.a->id != macro.id) {
                    continue;
                }
                for (std::size_t k = 0; k < call.args.size(); ++k) {
                    const auto& argument = call.args[k];
                    const bool is_it =
                        argument.name.empty() ? k == i : argument.name == parameters[i].name;
                    if (is_it && is_content(argument.value)) {
                        return true;
                    }
                }
            }
        }
        return false;
    }

    const Program& program_;
    Names lists_;     // `messages` and what is assigned from it
    Names items_;     // loop variables over those
    Names contents_;  // variables that hold the content of an item
};

}  // namespace

ContentFormat detect_content_format(const jinja::Program& program) {
    return Detector(program).loops_over_content() ? ContentFormat::OpenAi : ContentFormat::String;
}

}  // namespace sluice::tokens
