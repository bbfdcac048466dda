// POST /v1/chat/completions.
#include <ctime>

#include "tests/sim/trtllm/request.hpp"

namespace sluice::sim::trtllm {
namespace {

constexpr std::size_t kTokensPerImage = 16;
constexpr std::string_view kMark = "<|sim-image|>";

bool is_image(const json::Value& part) {
    return part.text_of("type") == "image_url";
}

// The text of a message's parts, a mark where an image stands; images go to `seen`.
std::string flatten(const json::Array& parts, std::vector<std::string>& seen) {
    std::string out;
    for (const json::Value& part : parts) {
        out += out.empty() ? "" : "\n";
        if (is_image(part)) {
            const json::Value* url = part.get("image_url");
            seen.emplace_back(url == nullptr ? "" : url->text_of("url"));
            out += kMark;
        } else {
            out += part.text_of("text");
        }
    }
    return out;
}

// The request with images replaced by marks. Messages without images stay as they are.
json::Value mark_images(const json::Value& body, std::vector<std::string>& seen) {
    json::Object out = *body.object();
    for (json::Member& m : out) {
        if (m.key != "messages") {
            continue;
        }
        json::Array messages = *m.value.array();
        for (json::Value& message : messages) {
            const json::Value* content = message.get("content");
            const json::Array* parts = content == nullptr ? nullptr : content->array();
            std::vector<std::string> images;
            const std::string text = parts == nullptr ? "" : flatten(*parts, images);
            if (images.empty()) {
                continue;
            }
            seen.insert(seen.end(), images.begin(), images.end());
            json::Object changed = *message.object();
            for (json::Member& field : changed) {
                if (field.key == "content") {
                    field.value = json::Value(text);
                }
            }
            message = json::Value(std::move(changed));
        }
        m.value = json::Value(std::move(messages));
    }
    return json::Value(std::move(out));
}

// Each mark becomes placeholder tokens of an image.
std::variant<Prompt, ApiError> encode(const TextModel& model, std::string_view text, bool special,
                                      const std::vector<std::string>& images) {
    Prompt out;
    const auto placeholder = static_cast<TokenId>(model.vocabulary());
    for (std::size_t i = 0; i <= images.size(); ++i) {
        const std::size_t mark = i < images.size() ? text.find(kMark) : std::string_view::npos;
        auto ids = model.encode(text.substr(0, mark), special && i == 0);
        if (!ids) {
            return ApiError{400, ids.error().what};
        }
        out.ids.insert(out.ids.end(), ids->begin(), ids->end());
        if (mark == std::string_view::npos) {
            break;
        }
        out.media.push_back({out.ids.size(), kTokensPerImage, sha256(images[i])});
        out.ids.insert(out.ids.end(), kTokensPerImage, placeholder);
        text.remove_prefix(mark + kMark.size());
    }
    return out;
}

std::variant<Prompt, ApiError> read_prompt(const Service& s, const json::Value& body,
                                           const std::string& text) {
    if (const json::Value* given = body.get("prompt_token_ids")) {
        Prompt out;
        for (const json::Value& v : *given->array()) {
            out.ids.push_back(v.integer() == nullptr ? 0 : static_cast<TokenId>(*v.integer()));
        }
        if (!out.ids.empty()) {
            return out;
        }
    }
    if (const json::Value* given = body.get("prompt_token_ids_b64")) {
        auto ids = ids_from_base64(*given->text());
        if (!ids) {
            return ApiError{400, "prompt_token_ids_b64 is no list of token ids in base64"};
        }
        Prompt out;
        out.ids = *std::move(ids);
        return out;
    }
    if (body.get("messages")->array()->empty()) {
        return ApiError{400, "list index out of range"};
    }
    std::vector<std::string> images;
    const json::Value marked = mark_images(body, images);
    const auto rendered = s.model().render(
        marked, images.empty() ? std::string_view(text) : json::Writer().value(marked).take());
    if (!rendered) {
        return ApiError{400, rendered.error().what};
    }
    return encode(s.model(), *rendered, body.flag("add_special_tokens", false), images);
}

struct Choice {
    std::string text;
    std::uint64_t tokens = 0;
    std::vector<TokenId> first;  // the first one
    std::optional<Finish> finish;
};

class Chat {
public:
    Chat(Service& s, const Params& p, const Prompt& prompt)
        : service_(s),
          p_(p),
          prompt_(prompt),
          prompt_tokens_(prompt.ids.size()),
          choices_(p.choices) {}

    void answer(Run& run) {
        if (run.drive([this](std::size_t i, Step& step) { add(i, step); })) {
            run.reply(json_reply(plain(run)));
        }
    }

    void stream(Run& run, http::Exchange& exchange) {
        const ChunkIds ids(service_, "chatcmpl");
        exchange.open_stream(false);
        bool has_roles = false;
        const bool ended = run.drive([&](std::size_t i, Step& step) {
            for (std::size_t c = 0; !has_roles && c < choices_.size(); ++c) {
                // With a blank before the line ends, as the server writes it.
                run.event("data: " + role_chunk(ids.next(), c) + " \n\n");
            }
            has_roles = true;
            add(i, step);
            run.event(sse(delta_chunk(run, ids.next(), i, step)));
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

    void begin(json::Writer& w, const std::string& id, std::string_view object) const {
        w.open_object().field("id", id).field("object", object);
        w.field("created", created_).field("model", p_.model);
        w.key("choices").open_array();
    }

    Usage usage(const Run& run) const {
        Usage u{prompt_tokens_, 0, cached_tokens(service_, p_, run)};
        for (const Choice& c : choices_) {
            u.completion += c.tokens;
        }
        return u;
    }

    // Chunks leave out what is null.
    std::string role_chunk(const std::string& id, std::size_t i) const {
        json::Writer w;
        begin(w, id, "chat.completion.chunk");
        w.open_object().field("index", std::uint64_t{i}).key("delta").open_object();
        w.field("role", "assistant").close_object().close_object().close_array();
        return w.close_object().take();
    }

    std::string delta_chunk(const Run& run, const std::string& id, std::size_t i,
                            const Step& step) const {
        json::Writer w;
        begin(w, id, "chat.completion.chunk");
        w.open_object().field("index", std::uint64_t{i}).key("delta").open_object();
        w.field("content", step.text).field("reasoning_content", "").close_object();
        write_finish(w, step.finish, false);
        w.close_object().close_array();
        if (p_.has_continuous_usage) {
            write_usage(w, {prompt_tokens_, choices_[i].tokens, cached_tokens(service_, p_, run)});
        }
        return w.close_object().take();
    }

    std::string usage_chunk(const Run& run, const std::string& id) const {
        json::Writer w;
        begin(w, id, "chat.completion.chunk");
        w.close_array();
        write_usage(w, usage(run));
        return w.close_object().take();
    }

    void write_finish(json::Writer& w, const std::optional<Finish>& f, bool writes_null) const {
        if (f) {
            w.field("finish_reason", finish_word(service_, p_.disagg, f->reason));
        } else if (writes_null) {
            w.null_field("finish_reason");
        }
        if (f && std::holds_alternative<std::string>(f->stop)) {
            w.field("stop_reason", std::get<std::string>(f->stop));
        } else if (f && std::holds_alternative<TokenId>(f->stop)) {
            w.field("stop_reason", std::uint64_t{std::get<TokenId>(f->stop)});
        } else if (writes_null) {
            w.null_field("stop_reason");
        }
    }

    std::string plain(const Run& run) const {
        json::Writer w;
        begin(w, reply_id("chatcmpl"), "chat.completion");
        for (std::size_t i = 0; i < choices_.size(); ++i) {
            w.open_object().field("index", std::uint64_t{i}).key("message").open_object();
            w.field("role", "assistant").field("content", choices_[i].text);
            w.field("reasoning_content", "").null_field("reasoning");
            w.key("tool_calls").open_array().close_array().close_object().null_field("logprobs");
            write_finish(w, choices_[i].finish, true);
            w.null_field("mm_embedding_handle");
            write_disagg(w, service_, p_.disagg, choices_[i].first);
            w.null_field("avg_decoded_tokens_per_iter").close_object();
        }
        w.close_array();
        write_usage(w, usage(run));
        write_prompt_ids(w, service_, p_.disagg, prompt_.ids);
        return w.close_object().take();
    }

    Service& service_;
    const Params& p_;
    const Prompt& prompt_;
    const std::uint64_t prompt_tokens_;
    const std::int64_t created_ = std::time(nullptr);
    std::vector<Choice> choices_;
};

}  // namespace

void handle_chat(Service& s, http::Request& request, http::Exchange& exchange) {
    auto parsed = read_body(request);
    if (const auto* r = std::get_if<http::Response>(&parsed)) {
        return exchange.send(*r);
    }
    const json::Value& body = std::get<json::Value>(parsed);
    const auto refuse = [&exchange](const ApiError& e) {
        exchange.send(e.response());
    };
    if (const auto e = check_fields(body, Endpoint::Chat, s.options().era())) {
        return refuse(*e);
    }
    const auto params = read_params(s, request, body);
    if (const auto* e = std::get_if<ApiError>(&params)) {
        return refuse(*e);
    }
    auto prompt = read_prompt(s, body, request.body);
    if (const auto* e = std::get_if<ApiError>(&prompt)) {
        return refuse(*e);
    }
    const Params& p = std::get<Params>(params);
    const std::vector<Prompt> list{std::get<Prompt>(std::move(prompt))};
    start(s, request, exchange, p, list, [&](Run& run) {
        Chat answer(s, p, list.front());
        if (p.streams) {
            answer.stream(run, exchange);
        } else {
            answer.answer(run);
        }
    });
}

}  // namespace sluice::sim::trtllm
