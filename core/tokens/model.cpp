#include "core/tokens/model.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>

#include "core/tokens/jinja/json.hpp"

namespace sluice::tokens {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxConfigBytes = std::uintmax_t{64} << 20U;

// Empty if there is no such file.
Result<std::optional<std::string>> read(const fs::path& file) {
    std::error_code ec;
    const auto size = fs::file_size(file, ec);
    if (ec == std::errc::no_such_file_or_directory || ec == std::errc::not_a_directory) {
        return std::optional<std::string>();
    }
    const std::string name = file.filename().string();
    if (ec) {
        return Error{Code::Io, name + ": " + ec.message()};
    }
    if (size > kMaxConfigBytes) {
        return Error{Code::Limit, name + ": too large"};
    }
    std::ifstream in(file, std::ios::binary);
    std::string text(static_cast<std::size_t>(size), '\0');
    if (!in.read(text.data(), static_cast<std::streamsize>(size))) {
        return Error{Code::Io, name + ": cannot be read"};
    }
    return std::optional<std::string>(std::move(text));
}

// What config.json or the vocabulary says about how the engine builds prompts; empty: by template.
std::string prompt_builder(const fs::path& dir, const Tokenizer& tokenizer) {
    std::string type;
    if (auto config = read(dir / "config.json"); config && *config) {
        Arena arena(std::size_t{16} << 20U);
        static constexpr std::string_view kKeep[] = {"model_type"};
        if (auto parsed = jinja::parse_json_members(arena, **config, kKeep)) {
            const Value* v = find(*parsed->dict, "model_type");
            type = v != nullptr && v->is_string() ? std::string(v->str()) : std::string();
        }
    }
    const bool is_harmony = tokenizer.id_of("<|channel|>") && tokenizer.id_of("<|call|>") &&
                            tokenizer.id_of("<|constrain|>");
    if (type == "gpt_oss" || is_harmony) {
        return "the engine builds Harmony prompts without the chat template";
    }
    static constexpr std::string_view kCoded[] = {"deepseek_v32", "deepseek_v4", "kimi_k3",
                                                  "cohere2_moe"};
    if (std::ranges::find(kCoded, type) != std::end(kCoded)) {
        return "the engine builds prompts of model type " + type + " without the chat template";
    }
    std::error_code ec;
    if (fs::exists(dir / "tekken.json", ec)) {
        return "the engine builds prompts with its own tokenizer of tekken.json";
    }
    return {};
}

// The chat_template of a tokenizer_config.json: by name; one text is "default".
Result<std::map<std::string, std::string>> templates_of(std::string_view config) {
    std::map<std::string, std::string> out;
    Arena arena(std::size_t{256} << 20U);
    static constexpr std::string_view kKeep[] = {"chat_template"};
    auto parsed = jinja::parse_json_members(arena, config, kKeep);
    if (!parsed) {
        return std::move(parsed).error().at("tokenizer_config.json");
    }
    const Value* v = find(*parsed->dict, "chat_template");
    if (v == nullptr || v->is_none()) {
        return out;
    }
    if (v->is_string()) {
        out.emplace("default", v->str());
        return out;
    }
    const Error wrong{Code::Invalid,
                      "tokenizer_config.json: chat_template must be a text or a list of names and "
                      "templates"};
    if (!v->is(Kind::List)) {
        return wrong;
    }
    for (const Value& item : v->list->view()) {
        const Value* name = item.is_dict() ? find(*item.dict, "name") : nullptr;
        const Value* text = item.is_dict() ? find(*item.dict, "template") : nullptr;
        if (name == nullptr || text == nullptr || !name->is_string() || !text->is_string()) {
            return wrong;
        }
        out.insert_or_assign(std::string(name->str()), std::string(text->str()));
    }
    return out;
}

bool has_tools(std::string_view body) {
    Arena arena(std::size_t{512} << 20U);
    static constexpr std::string_view kKeep[] = {"tools"};
    const auto parsed = jinja::parse_json_members(arena, body, kKeep);
    const Value* tools = parsed ? find(*parsed->dict, "tools") : nullptr;
    return tools != nullptr && !tools->is_none();
}

}  // namespace

Result<std::shared_ptr<const Model>> Model::load(const fs::path& dir) {
    return load(dir, Tokenizer::Options());
}

Result<std::shared_ptr<const Model>> Model::load(const fs::path& dir,
                                                 const Tokenizer::Options& options) {
    std::error_code ec;
    if (!fs::is_regular_file(dir / "tokenizer.json", ec)) {
        return Error{Code::NotFound, "no tokenizer.json"};
    }
    auto tokenizer =
        Tokenizer::load(dir / "tokenizer.json", dir / "tokenizer_config.json", options);
    if (!tokenizer) {
        return std::move(tokenizer).error();
    }
    std::shared_ptr<Model> model(new Model());
    model->tokenizer_ = std::move(*tokenizer);

    std::map<std::string, std::string> templates;
    auto file = read(dir / "chat_template.jinja");
    if (!file) {
        return std::move(file).error();
    }
    if (*file) {
        templates.emplace("default", std::move(**file));
    } else {
        auto config = read(dir / "tokenizer_config.json");
        if (!config) {
            return std::move(config).error();
        }
        if (*config) {
            auto named = templates_of(**config);
            if (!named) {
                return std::move(named).error();
            }
            templates = std::move(*named);
        }
    }
    model->chat_refusal_ = prompt_builder(dir, *model->tokenizer_);
    // A template that does not compile is no reason to refuse completions.
    const auto compile = [&](const std::string& name) -> std::shared_ptr<const ChatTemplate> {
        const auto at = templates.find(name);
        if (at == templates.end()) {
            return nullptr;
        }
        auto compiled = ChatTemplate::compile(at->second, model->tokenizer_->special_tokens());
        if (!compiled) {
            model->chat_refusal_ = compiled.error().what;
            return nullptr;
        }
        return std::move(*compiled);
    };
    model->default_ = compile("default");
    model->tool_use_ = compile("tool_use");
    if (model->default_ == nullptr && model->chat_refusal_.empty()) {
        model->chat_refusal_ = "the model has no chat template";
    }
    return std::shared_ptr<const Model>(std::move(model));
}

Result<std::string> Model::render(std::string_view body_json, const ChatOptions& options,
                                  RenderInfo* info) const {
    if (!chat_refusal_.empty()) {
        return Error{Code::Unsupported, chat_refusal_};
    }
    return render_template(body_json, options, info);
}

Result<std::string> Model::render_template(std::string_view body_json, const ChatOptions& options,
                                           RenderInfo* info) const {
    const bool uses_tools = tool_use_ != nullptr && has_tools(body_json);
    const ChatTemplate* chosen = uses_tools ? tool_use_.get() : default_.get();
    if (chosen == nullptr) {
        return Error{Code::Unsupported,
                     chat_refusal_.empty() ? "the model has no chat template" : chat_refusal_};
    }
    return chosen->render(body_json, options, info);
}

}  // namespace sluice::tokens
