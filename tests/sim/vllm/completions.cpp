// POST /v1/completions.
#include <algorithm>
#include <cstdlib>

#include "tests/sim/engine/run.hpp"
#include "tests/sim/support/utf8.hpp"
#include "tests/sim/vllm/request_start.hpp"
#include "tests/sim/vllm/service.hpp"
#include "tests/sim/vllm/shapes.hpp"

namespace sluice::sim::vllm {
namespace {

constexpr std::uint32_t kDefaultMaxTokens = 16;

struct Prompt {
    std::vector<TokenId> ids;
    std::string text;
};

using Prompts = std::variant<std::vector<Prompt>, ApiError>;

bool all_integers(const json::Array& a) {
    return std::all_of(a.begin(), a.end(), [](const auto& v) { return v.integer() != nullptr; });
}

// One prompt: text, or a list of ids.
std::variant<Prompt, ApiError> one_prompt(const TextModel& model, const json::Value& v,
                                          bool add_special_tokens) {
    Prompt out;
    if (const std::string* text = v.text()) {
        auto ids = model.encode(*text, add_special_tokens);
        if (!ids) {
            return refuse(ids.error().what);
        }
        out.ids = std::move(ids).value();
        out.text = *text;
        return out;
    }
    const json::Array* list = v.array();
    if (list == nullptr || !all_integers(*list)) {
        return invalid_request(
            {{"string_type", "body.prompt", "Input should be a valid string", shown(v), ""}});
    }
    for (const json::Value& n : *list) {
        const std::int64_t id = *n.integer();
        if (id < 0 || id >= static_cast<std::int64_t>(model.vocabulary())) {
            return refuse("Token id " + std::to_string(id) + " is out of vocabulary");
        }
        out.ids.push_back(static_cast<TokenId>(id));
    }
    out.text = model.decode(out.ids);
    return out;
}

Prompts read_prompts(const TextModel& model, const json::Value& body) {
    const json::Value& given = *body.get("prompt");
    const bool special = body.flag("add_special_tokens", true);
    const json::Array* list = given.array();
    std::vector<const json::Value*> items;
    if (list == nullptr || (!list->empty() && all_integers(*list))) {
        items.push_back(&given);
    } else {
        for (const json::Value& v : *list) {
            items.push_back(&v);
        }
    }
    if (items.empty()) {
        return refuse("You must pass at least one prompt");
    }
    std::vector<Prompt> out;
    for (const json::Value* v : items) {
        auto p = one_prompt(model, *v, special);
        if (auto* e = std::get_if<ApiError>(&p)) {
            return std::move(*e);
        }
        if (std::get<Prompt>(p).ids.empty()) {
            return refuse("The decoder prompt cannot be empty");
        }
        out.push_back(std::get<Prompt>(std::move(p)));
    }
    return out;
}

Check check_body(const json::Value& body) {
    auto fields = common_fields();
    fields.push_back({"echo", Kind::Boolean});
    fields.push_back({"logprobs", Kind::Integer});
    fields.push_back({"suffix", Kind::Text});
    if (auto e = validate(body, fields)) {
        return e;
    }
    if (auto e = check_stream_options(body)) {
        return e;
    }
    const json::Value* prompt = body.get("prompt");
    if (prompt == nullptr || (prompt->text() != nullptr && prompt->text()->empty())) {
        return refuse_param("Either prompt or prompt_embeds must be provided and non-empty.",
                            "prompt");
    }
    return check_salt(body);
}

// What is known of one choice of one prompt.
struct Choice {
    std::size_t prompt = 0;
    std::string text;
    std::vector<TokenId> ids;
    std::optional<Finish> finish;
    std::size_t offset = 0;  // characters before the next token, for text_offset
};

class Completions {
public:
    Completions(Service& s, Params params, std::vector<Prompt> prompts, std::string model,
                bool shows_generated)
        : service_(s),
          p_(std::move(params)),
          prompts_(std::move(prompts)),
          model_(std::move(model)),
          shows_generated_(shows_generated),
          created_(now_s()) {
        choices_.resize(prompts_.size() * p_.choices);
        for (std::size_t i = 0; i < choices_.size(); ++i) {
            choices_[i].prompt = i / p_.choices;
        }
    }

    const std::vector<Prompt>& prompts() const { return prompts_; }

    void answer(Run& run) {
        const bool ended = run.drive([this](std::size_t i, Step& step) { add(choices_[i], step); });
        if (ended) {
            http::Response r;
            r.body = plain(run);
            run.reply(r);
        }
    }

    void stream(Run& run, http::Exchange& exchange) {
        exchange.open_stream();
        const bool ended = run.drive([&](std::size_t i, Step& step) {
            const bool is_first = choices_[i].ids.empty();
            add(choices_[i], step);
            run.event(sse(chunk(i, step, is_first)));
        });
        if (!ended || run.is_broken()) {
            return;
        }
        if (p_.includes_usage && !run.event(sse(usage_chunk(run)))) {
            return;
        }
        if (run.event(kDone)) {
            exchange.close_stream();
        }
    }

private:
    void add(Choice& c, Step& step) {
        c.ids.push_back(step.token);
        if (!shows_generated_) {
            step.text.clear();
        }
        c.text += step.text;
        if (step.finish) {
            c.finish = step.finish;
        }
    }

    void begin(json::Writer& w) const {
        w.open_object().field("id", p_.id).field("object", "text_completion");
        w.field("created", created_).field("model", model_);
    }

    Usage usage(const Run& run) const {
        Usage u;
        for (const Prompt& p : prompts_) {
            u.prompt += p.ids.size();
        }
        for (const Choice& c : choices_) {
            u.completion += c.ids.size();
        }
        if (service_.options().reports_prompt_details) {
            u.cached = run.cached_tokens();
        }
        return u;
    }

    // The logprobs object over `ids`, whose first character stands at `offset`.
    void write_logprobs(json::Writer& w, const std::vector<TokenId>& ids, std::size_t first,
                        std::size_t& offset, const std::vector<TokenId>* prompt) const {
        if (!p_.logprobs) {
            w.null_field("logprobs");
            return;
        }
        const TextModel& m = service_.model();
        std::vector<TokenId> all = prompt == nullptr ? std::vector<TokenId>() : *prompt;
        const bool has_prompt = !all.empty();
        all.insert(all.end(), ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
        const std::uint32_t others = *p_.logprobs > 0 ? *p_.logprobs - 1 : 0;

        w.key("logprobs").open_object().key("text_offset").open_array();
        for (const TokenId id : all) {
            w.value(static_cast<std::uint64_t>(offset));
            offset += utf8::count(token_text(m, id));
        }
        w.close_array().key("token_logprobs").open_array();
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (has_prompt && i == 0) {
                w.null();
            } else {
                w.value(alternatives(m, all[i], 0).front().logprob);
            }
        }
        w.close_array().key("tokens").open_array();
        for (const TokenId id : all) {
            w.value(token_text(m, id));
        }
        w.close_array().key("top_logprobs").open_array();
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (has_prompt && i == 0) {
                w.null();
                continue;
            }
            // A prompt token is not the likeliest, so one more is listed beside it.
            const bool is_prompt = has_prompt && i < prompt->size();
            w.open_object();
            for (const auto& a : alternatives(m, all[i], is_prompt ? *p_.logprobs : others)) {
                w.field(token_text(m, a.id), a.logprob);
            }
            w.close_object();
        }
        w.close_array().close_object();
    }

    std::string chunk(std::size_t index, const Step& step, bool is_first) {
        Choice& c = choices_[index];
        const Prompt& prompt = prompts_[c.prompt];
        const bool shows_prompt = is_first && p_.echoes;
        json::Writer w;
        begin(w);
        w.key("choices").open_array().open_object();
        w.field("index", static_cast<std::uint64_t>(index));
        w.field("text", shows_prompt ? prompt.text + step.text : step.text);
        write_logprobs(w, c.ids, c.ids.size() - 1, c.offset, shows_prompt ? &prompt.ids : nullptr);
        write_finish(w, step.finish);
        write_stop_reason(w, step.finish);
        w.key("prompt_token_ids");
        if (is_first && (p_.returns_token_ids || p_.echoes)) {
            write_ids(w, prompt.ids);
        } else {
            w.null();
        }
        w.key("token_ids");
        if (p_.returns_token_ids) {
            write_ids(w, {step.token});
        } else {
            w.null();
        }
        w.close_object().close_array();
        if (p_.has_continuous_usage) {
            write_last_usage(w, Usage{prompt.ids.size(), c.ids.size(), {}, {}, {}});
        }
        if (step.finish && !p_.includes_usage) {
            w.field("system_fingerprint", fingerprint(service_.options().version));
        }
        return w.close_object().take();
    }

    std::string usage_chunk(const Run& run) const {
        json::Writer w;
        begin(w);
        w.key("choices").open_array().close_array();
        write_last_usage(w, usage(run));
        w.field("system_fingerprint", fingerprint(service_.options().version));
        return w.close_object().take();
    }

    std::string plain(const Run& run) {
        json::Writer w;
        begin(w);
        w.key("choices").open_array();
        for (std::size_t i = 0; i < choices_.size(); ++i) {
            write_choice(w, i);
        }
        w.close_array().null_field("service_tier");
        w.field("system_fingerprint", fingerprint(service_.options().version));
        write_plain_usage(w, usage(run));
        write_transfer(w, service_.options().engine.pd, run.offer().get());
        w.null_field("ec_transfer_params");
        return w.null_field("metrics").close_object().take();
    }

    void write_choice(json::Writer& w, std::size_t index) {
        Choice& c = choices_[index];
        const Prompt& prompt = prompts_[c.prompt];
        w.open_object().field("index", static_cast<std::uint64_t>(index));
        w.field("text", p_.echoes ? prompt.text + c.text : c.text);
        write_logprobs(w, c.ids, 0, c.offset, p_.echoes ? &prompt.ids : nullptr);
        write_finish(w, c.finish);
        write_stop_reason(w, c.finish);
        w.key("token_ids");
        if (p_.returns_token_ids) {
            write_ids(w, c.ids);
        } else {
            w.null();
        }
        w.key("prompt_logprobs");
        const auto others = p_.prompt_logprobs                     ? p_.prompt_logprobs
                            : p_.echoes && p_.logprobs.has_value() ? p_.logprobs
                                                                   : std::nullopt;
        if (others) {
            write_prompt_logprobs(w, service_.model(), prompt.ids, *others);
        } else {
            w.null();
        }
        w.key("prompt_token_ids");
        if (p_.returns_token_ids) {
            write_ids(w, prompt.ids);
        } else {
            w.null();
        }
        w.null_field("routed_experts").close_object();
    }

    Service& service_;
    Params p_;
    std::vector<Prompt> prompts_;
    std::string model_;
    bool shows_generated_;
    std::uint64_t created_;
    std::vector<Choice> choices_;
};

}  // namespace

void handle_completions(Service& s, http::Request& request, http::Exchange& exchange) {
    auto parsed = read_body(request);
    if (const auto* r = std::get_if<http::Response>(&parsed)) {
        return exchange.send(*r);
    }
    const json::Value& body = std::get<json::Value>(parsed);
    const auto refuse_with = [&](const ApiError& e) {
        exchange.send(e.response());
    };
    if (auto e = check_body(body)) {
        return refuse_with(*e);
    }
    auto named = s.find_model(body);
    if (auto* e = std::get_if<ApiError>(&named)) {
        return refuse_with(*e);
    }
    if (body.get("suffix") != nullptr) {
        return refuse_with(ApiError{400,
                                    "suffix is only supported for models with FIM completion "
                                    "rendering",
                                    "BadRequestError", "suffix"});
    }
    auto prompts = read_prompts(s.model(), body);
    if (auto* e = std::get_if<ApiError>(&prompts)) {
        return refuse_with(*e);
    }
    Params p = read_params(body, request, s.options(), "cmpl-");
    if (const json::Value* n = body.get("logprobs"); n != nullptr && n->integer() != nullptr) {
        p.logprobs = static_cast<std::uint32_t>(std::clamp<std::int64_t>(*n->integer(), 0, 1000));
    }
    auto& list = std::get<std::vector<Prompt>>(prompts);
    std::vector<std::uint32_t> rooms;
    for (const Prompt& prompt : list) {
        const auto r = room(p, prompt.ids.size(), s.options().max_model_len, kDefaultMaxTokens);
        if (const auto* e = std::get_if<ApiError>(&r)) {
            return refuse_with(*e);
        }
        rooms.push_back(std::get<std::uint32_t>(r));
    }
    p.sampling.max_tokens = *std::min_element(rooms.begin(), rooms.end());
    if (auto e = check_sampling(body, p)) {
        return refuse_with(*e);
    }
    // Held to a text only in plain replies: comp-stream-structured-choice runs free.
    if (p.structured_choice != nullptr && !p.streams) {
        hold_to_text(s.model(), *p.structured_choice, p.sampling);
    }
    const bool asks_for_none = p.asked_max_tokens == 0;
    const bool streams = p.streams;
    start_request(s, request, exchange, body, [&](Run& run, const Submit& submit) {
        Completions answer(s, p, std::move(list), std::get<Service::Named>(named).name,
                           !asks_for_none);
        for (std::size_t i = 0; i < answer.prompts().size(); ++i) {
            submit(answer.prompts()[i].ids, p, rooms[i], std::get<Service::Named>(named).lora);
        }
        if (streams) {
            answer.stream(run, exchange);
        } else {
            answer.answer(run);
        }
    });
}

}  // namespace sluice::sim::vllm
