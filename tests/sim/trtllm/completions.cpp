// POST /v1/completions.
#include <algorithm>
#include <ctime>

#include "tests/sim/trtllm/request.hpp"

namespace sluice::sim::trtllm {
namespace {

bool all_integers(const json::Array& a) {
    return std::all_of(a.begin(), a.end(), [](const auto& v) { return v.integer() != nullptr; });
}

std::variant<Prompt, ApiError> one_prompt(const TextModel& model, const json::Value& v,
                                          bool add_special_tokens) {
    Prompt out;
    if (const std::string* text = v.text()) {
        auto ids = model.encode(*text, add_special_tokens);
        if (!ids) {
            return ApiError{400, ids.error().what};
        }
        out.ids = std::move(ids).value();
        out.text = *text;
    } else if (v.array() != nullptr && all_integers(*v.array())) {
        for (const json::Value& n : *v.array()) {
            const std::int64_t id = *n.integer();
            if (id < 0 || id >= static_cast<std::int64_t>(model.vocabulary())) {
                return ApiError{400, "Token ID out of range (1 requests)"};
            }
            out.ids.push_back(static_cast<TokenId>(id));
        }
        out.text = model.decode(out.ids);
    } else {
        return ApiError{400,
                        "[{'type': 'string_type', 'loc': ('body', 'prompt', 'str'), 'msg': "
                        "'Input should be a valid string', 'input': " +
                            repr(v) + "}]"};
    }
    if (out.ids.empty()) {
        return ApiError{400, "prompt is empty"};
    }
    return out;
}

std::variant<std::vector<Prompt>, ApiError> read_prompts(const TextModel& model,
                                                         const json::Value& body) {
    const json::Value& given = *body.get("prompt");
    const json::Array* list = given.array();
    const bool is_one = list == nullptr || (!list->empty() && all_integers(*list));
    std::vector<Prompt> out;
    for (const json::Value& v : is_one ? json::Array{given} : *list) {
        auto p = one_prompt(model, v, body.flag("add_special_tokens", true));
        if (auto* e = std::get_if<ApiError>(&p)) {
            return std::move(*e);
        }
        out.push_back(std::get<Prompt>(std::move(p)));
    }
    if (out.empty()) {
        return ApiError{400, "prompt is empty"};
    }
    return out;
}

struct Choice {
    std::string text;
    std::uint64_t tokens = 0;
    std::vector<TokenId> first;  // the first one
    std::optional<Finish> finish;
};

class Completions {
public:
    Completions(Service& s, const Params& p, const std::vector<Prompt>& prompts)
        : service_(s), p_(p), prompts_(prompts), choices_(prompts.size() * p.choices) {}

    void answer(Run& run) {
        if (run.drive([this](std::size_t i, Step& step) { add(i, step); })) {
            run.reply(json_reply(plain(run)));
        }
    }

    void stream(Run& run, http::Exchange& exchange) {
        const ChunkIds ids(service_, "cmpl");
        exchange.open_stream(false);
        const bool ended = run.drive([&](std::size_t i, Step& step) {
            const bool is_first = choices_[i].tokens == 0;
            add(i, step);
            run.event(sse(chunk(run, ids.next(), i, step, is_first)));
        });
        if (!ended || run.is_broken()) {
            return;
        }
        if (p_.includes_usage && !run.event(sse(usage_chunk(run, ids.next())))) {
            return;
        }
        if (run.event(kDone)) {
            exchange.close_stream();
        }
    }

private:
    void add(std::size_t i, const Step& step) {
        choices_[i].text += step.text;
        if (choices_[i].tokens++ == 0) {
            choices_[i].first = {step.token};
        }
        choices_[i].finish = step.finish;
    }

    void begin(json::Writer& w, const std::string& id) const {
        w.open_object().field("id", id).field("object", "text_completion");
        w.field("created", created_).field("model", p_.model);
    }

    void write_finish(json::Writer& w, const std::optional<Finish>& f) const {
        w.key("finish_reason");
        f ? w.value(finish_word(service_, p_.disagg, f->reason)) : w.null();
        w.key("stop_reason");
        if (f && std::holds_alternative<std::string>(f->stop)) {
            w.value(std::get<std::string>(f->stop));
        } else if (f && std::holds_alternative<TokenId>(f->stop)) {
            w.value(std::uint64_t{std::get<TokenId>(f->stop)});
        } else {
            w.null();
        }
    }

    Usage usage(const Run& run) const {
        Usage u;
        for (const Prompt& p : prompts_) {
            u.prompt += p.ids.size();
        }
        for (const Choice& c : choices_) {
            u.completion += c.tokens;
        }
        u.cached = cached_tokens(service_, p_, run);
        return u;
    }

    std::string chunk(const Run& run, const std::string& id, std::size_t i, const Step& step,
                      bool is_first) const {
        const Prompt& prompt = prompts_[i / p_.choices];
        json::Writer w;
        begin(w, id);
        w.key("choices").open_array().open_object().field("index", std::uint64_t{i});
        w.field("text", is_first && p_.echoes ? prompt.text + step.text : step.text);
        w.null_field("token_ids").null_field("logprobs");
        write_finish(w, step.finish);
        w.null_field("avg_decoded_tokens_per_iter").close_object().close_array();
        if (p_.has_continuous_usage) {
            write_usage(w,
                        {prompt.ids.size(), choices_[i].tokens, cached_tokens(service_, p_, run)});
        } else {
            w.null_field("usage");
        }
        return w.close_object().take();
    }

    std::string usage_chunk(const Run& run, const std::string& id) const {
        json::Writer w;
        begin(w, id);
        w.key("choices").open_array().close_array();
        write_usage(w, usage(run));
        return w.close_object().take();
    }

    std::string plain(const Run& run) const {
        json::Writer w;
        begin(w, reply_id("cmpl"));
        w.key("choices").open_array();
        for (std::size_t i = 0; i < choices_.size(); ++i) {
            const Prompt& prompt = prompts_[i / p_.choices];
            w.open_object().field("index", std::uint64_t{i});
            w.field("text", p_.echoes ? prompt.text + choices_[i].text : choices_[i].text);
            w.null_field("token_ids").null_field("logprobs").null_field("context_logits");
            write_finish(w, choices_[i].finish);
            write_disagg(w, service_, p_.disagg, choices_[i].first);
            w.null_field("avg_decoded_tokens_per_iter").close_object();
        }
        w.close_array();
        write_usage(w, usage(run));
        write_prompt_ids(w, service_, p_.disagg, prompts_.front().ids);
        return w.close_object().take();
    }

    Service& service_;
    const Params& p_;
    const std::vector<Prompt>& prompts_;
    const std::int64_t created_ = std::time(nullptr);
    std::vector<Choice> choices_;
};

}  // namespace

void handle_completions(Service& s, http::Request& request, http::Exchange& exchange) {
    auto parsed = read_body(request);
    if (const auto* r = std::get_if<http::Response>(&parsed)) {
        return exchange.send(*r);
    }
    const json::Value& body = std::get<json::Value>(parsed);
    const auto refuse = [&exchange](const ApiError& e) {
        exchange.send(e.response());
    };
    if (const auto e = check_fields(body, Endpoint::Completions, s.options().era())) {
        return refuse(*e);
    }
    const auto params = read_params(s, request, body);
    if (const auto* e = std::get_if<ApiError>(&params)) {
        return refuse(*e);
    }
    const auto prompts = read_prompts(s.model(), body);
    if (const auto* e = std::get_if<ApiError>(&prompts)) {
        return refuse(*e);
    }
    const Params& p = std::get<Params>(params);
    const auto& list = std::get<std::vector<Prompt>>(prompts);
    start(s, request, exchange, p, list, [&](Run& run) {
        Completions answer(s, p, list);
        if (p.streams) {
            answer.stream(run, exchange);
        } else {
            answer.answer(run);
        }
    });
}

void handle_health_generate(Service& s, http::Exchange& exchange) {
    ++s.reads().health_generate;
    Run run(exchange, Fault{}, failure_shapes());
    GenerateRequest r;
    r.prompt = {0};
    r.sampling.max_tokens = 1;
    s.desk().note_request();
    run.add(s.pick(), std::move(r));
    if (run.drive([](std::size_t, Step&) {})) {
        http::Response reply = json_reply("Generation health check OK");
        reply.content_type = "text/plain; charset=utf-8";
        exchange.send(reply);
    }
}

}  // namespace sluice::sim::trtllm
