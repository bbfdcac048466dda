#include "core/route/facts.hpp"

namespace sluice::route {
namespace {

// A String member's text; a member of another type is the engine's to refuse.
std::optional<std::string_view> text_of(const json::Body& body, std::string_view name,
                                        json::BodyReader& reader) {
    const json::Field* field = body.find(name);
    if (field == nullptr || field->type != json::Type::String) {
        return std::nullopt;
    }
    const auto text = reader.string(body.value(*field));
    if (!text) {
        return std::nullopt;
    }
    return *text;
}

}  // namespace

Api api_of(std::string_view path) noexcept {
    if (path == "/v1/chat/completions") {
        return Api::Chat;
    }
    if (path == "/v1/completions") {
        return Api::Completions;
    }
    if (path == "/v1/responses") {
        return Api::Responses;
    }
    if (path == "/v1/messages") {
        return Api::Messages;
    }
    if (path == "/v1/embeddings") {
        return Api::Embeddings;
    }
    return Api::Other;
}

std::optional<Refusal> read_facts(std::string_view path, std::string_view x_model,
                                  const json::Body* body, json::BodyReader* reader, Facts& out) {
    out.path = path;
    out.api = api_of(path);
    out.body = body;
    if (body != nullptr) {
        if (const auto model = text_of(*body, "model", *reader)) {
            out.model = *model;
        }
        if (const json::Field* stream = body->find("stream")) {
            out.is_stream = json::BodyReader::is_true(body->value(*stream));
        }
        if (const auto salt = text_of(*body, "cache_salt", *reader)) {
            out.salt = *salt;
        }
    }
    if (!x_model.empty()) {
        // One model for authorisation, routing and the engine.
        if (!out.model.empty() && out.model != x_model) {
            return Refusal{400, "model_conflict",
                           "the X-Model header and the body's model member differ", "model"};
        }
        out.model = x_model;
    }
    return std::nullopt;
}

}  // namespace sluice::route
