#include "core/route/prompt.hpp"

#include "core/route/models.hpp"

namespace sluice::route {
namespace {

// The prompt that decides: of a list of texts or of id lists the first, a list of ids as a whole.
struct Shape {
    json::Type type = json::Type::Null;  // String: a text; Array: ids
    std::string_view value;
};

Shape shape_of(const json::Body& body, json::BodyReader& reader) {
    const json::Field* field = body.find("prompt");
    if (field == nullptr) {
        return {};
    }
    const std::string_view value = body.value(*field);
    if (field->type == json::Type::String) {
        return {json::Type::String, value};
    }
    if (field->type != json::Type::Array) {
        return {};
    }
    const auto first = reader.first_element(value);
    if (!first) {
        return {};
    }
    if (first->type == json::Type::Number) {
        return {json::Type::Array, value};
    }
    return {first->type, first->value};
}

void encode(const tokens::Model& model, std::string_view text, bool add_special, Prompt& out) {
    if (text.empty()) {
        out.miss = "text_empty";
        return;
    }
    tokens::EncodeStats stats;
    if (!model.tokenizer().encode(text, add_special, out.tokens, &stats)) {
        out.miss = "tokenize";
        return;
    }
    out.segments = static_cast<std::uint32_t>(stats.segments);
    out.cached_segments = static_cast<std::uint32_t>(stats.cached_segments);
}

bool flag(const json::Body& body, std::string_view name, bool when_absent) {
    const json::Field* field = body.find(name);
    return field == nullptr ? when_absent : json::BodyReader::is_true(body.value(*field));
}

void read_completion(const Facts& facts, const tokens::Model* model, json::BodyReader& reader,
                     Prompt& out) {
    const Shape shape = shape_of(*facts.body, reader);
    if (shape.type == json::Type::Array) {
        if (!reader.token_ids(shape.value, out.tokens)) {
            out.tokens.clear();
            out.miss = "tokenize";
        }
        return;
    }
    if (shape.type != json::Type::String) {
        out.miss = "text_empty";
        return;
    }
    if (model == nullptr) {
        out.miss = "tokenize";
        return;
    }
    const auto text = reader.string(shape.value);
    if (!text) {
        out.miss = "tokenize";
        return;
    }
    encode(*model, *text, flag(*facts.body, "add_special_tokens", true), out);
}

void read_chat(const Facts& facts, const tokens::Model* model, Prompt& out) {
    if (model == nullptr) {
        out.miss = "tokenize";
        return;
    }
    if (!model->has_chat_template() || !model->chat_refusal().empty()) {
        out.miss = "template";
        return;
    }
    tokens::RenderInfo info;
    const auto text = model->render(facts.body->text(), {}, &info);
    if (!text) {
        out.miss = text.error().code == Code::Invalid ? "tokenize" : "template";
        return;
    }
    out.is_cut = info.is_cut_at_media;
    encode(*model, *text, flag(*facts.body, "add_special_tokens", false), out);
}

bool is_given(const json::Body& body, std::string_view name) {
    const json::Field* field = body.find(name);
    return field != nullptr && field->type != json::Type::Null;
}

// Members by which TensorRT-LLM caches the same tokens apart, or puts others in their place,
// without its events telling.
std::string_view unlike_its_tokens(const Facts& facts) {
    if (facts.body == nullptr) {
        return {};
    }
    if (is_given(*facts.body, "lora_request")) {
        return "adapter";
    }
    if (facts.salt.empty() && is_given(*facts.body, "cache_salt")) {
        return "salt";  // an empty one is a salt, too
    }
    if (facts.api == Api::Chat && is_given(*facts.body, "prompt_token_ids")) {
        return "prompt_token_ids";
    }
    return {};
}

}  // namespace

void Prompt::reset() {
    tokens.clear();
    miss = {};
    is_cut = false;
    segments = 0;
    cached_segments = 0;
}

bool has_prompt(const Facts& facts) {
    return facts.body != nullptr && (facts.api == Api::Completions || facts.api == Api::Chat);
}

bool is_token_prompt(const Facts& facts) {
    if (facts.api != Api::Completions || facts.body == nullptr) {
        return false;
    }
    const json::Field* field = facts.body->find("prompt");
    if (field == nullptr || field->type != json::Type::Array) {
        return false;
    }
    // [1,…] or [[1,…],…]; a list of texts has a quote there.
    for (const char c : facts.body->value(*field)) {
        if (c == '"') {
            return false;
        }
        if (c >= '0' && c <= '9') {
            return true;
        }
    }
    return false;
}

void read_prompt(const Facts& facts, const tokens::Model* model, json::BodyReader& reader,
                 Prompt& out) {
    out.reset();
    if (const auto miss = unlike_its_tokens(facts); !miss.empty()) {
        out.miss = miss;
    } else if (facts.api == Api::Completions && facts.body != nullptr) {
        read_completion(facts, model, reader, out);
    } else if (facts.api == Api::Chat && facts.body != nullptr) {
        read_chat(facts, model, out);
    } else {
        out.miss = "api";
    }
}

PromptJob::PromptJob(const Facts& of, std::string_view body,
                     std::shared_ptr<const tokens::Model> with)
    : facts(of), model(std::move(with)) {
    text.reserve(body.size() + json::kSlack);
    text = body;
    facts.path = {};
    facts.body = nullptr;
}

void PromptJob::run() {
    json::BodyReader reader;
    const auto body = reader.parse(text);
    if (!body) {
        prompt.miss = "tokenize";
        return;
    }
    facts.body = *body;
    read_prompt(facts, model.get(), reader, prompt);
    facts.body = nullptr;
}

std::string tokenizer_name(const Service& service, std::string_view served_model) {
    if (!served_model.empty()) {
        std::string parent;
        return lora_of(*service.pool, served_model, parent).empty() || parent.empty()
                   ? std::string(served_model)
                   : parent;
    }
    if (!service.rule->key.model.empty()) {
        return service.rule->key.model;
    }
    std::string only;
    for (const fleet::Member& member : service.pool->members()) {
        const auto models = member.endpoint->models();
        for (const fleet::Model& model : *models) {
            if (model.is_lora || model.name == only) {
                continue;
            }
            if (!only.empty()) {
                return {};
            }
            only = model.name;
        }
    }
    return only;
}

}  // namespace sluice::route
