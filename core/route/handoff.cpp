#include "core/route/handoff.hpp"

namespace sluice::route {
namespace {

struct Split {
    std::string_view outer;
    std::string_view inner;  // empty: a top-level member
};

Split split(std::string_view reserved) noexcept {
    const std::size_t dot = reserved.find('.');
    if (dot == std::string_view::npos) {
        return {reserved, {}};
    }
    return {reserved.substr(0, dot), reserved.substr(dot + 1)};
}

// The object member `outer`, viewed; null when it is no object. The last of equal names is what
// the engine reads.
Result<const json::Body*> inside(const json::Body& body, std::string_view outer,
                                 json::BodyReader& nested) {
    const json::Field* field = body.find(outer);
    if (field == nullptr || field->type != json::Type::Object) {
        return static_cast<const json::Body*>(nullptr);
    }
    const auto object = nested.parse(body.value(*field));
    if (!object) {
        return Error{object.error().code, std::string(outer)};
    }
    return *object;
}

}  // namespace

Result<std::string_view> find_reserved(const json::Body& body,
                                       std::span<const std::string> reserved,
                                       json::BodyReader& nested) {
    std::string_view found;
    for (const std::string& name : reserved) {
        const auto [outer, inner] = split(name);
        bool is_there = inner.empty() && body.find(outer) != nullptr;
        if (!inner.empty()) {
            const auto object = inside(body, outer, nested);
            if (!object) {
                return object.error();
            }
            is_there = *object != nullptr && (*object)->find(inner) != nullptr;
        }
        if (is_there && found.empty()) {
            found = name;
        }
    }
    return found;
}

void drop_reserved(const json::Body& body, std::span<const std::string> reserved,
                   json::BodyReader& nested, json::Edits& edits) {
    for (const std::string& name : reserved) {
        const auto [outer, inner] = split(name);
        if (inner.empty()) {
            edits.erase(outer);
            continue;
        }
        const auto viewed = inside(body, outer, nested);
        const json::Body* object = viewed ? *viewed : nullptr;
        if (object == nullptr || object->find(inner) == nullptr) {
            continue;
        }
        // All inner names of this outer member at once: a second edit of it would undo the first.
        json::Edits inner_edits(*object);
        for (const std::string& other : reserved) {
            const Split o = split(other);
            if (o.outer == outer && !o.inner.empty()) {
                inner_edits.erase(o.inner);
            }
        }
        std::string text;
        for (const std::string_view piece : inner_edits.pieces()) {
            text += piece;
        }
        edits.set_existing(outer, std::move(text));
    }
}

}  // namespace sluice::route
