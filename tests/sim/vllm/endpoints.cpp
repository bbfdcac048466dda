// Endpoints that generate nothing: models, event sources, tokenizing, development mode.
#include "core/base/random.hpp"
#include "tests/sim/vllm/service.hpp"
#include "tests/sim/vllm/shapes.hpp"

namespace sluice::sim::vllm {
namespace {

http::Response json_reply(std::string body) {
    http::Response r;
    r.body = std::move(body);
    return r;
}

void write_model(json::Writer& w, const Service& s, const std::string& name,
                 const std::string& root, const Lora* lora) {
    w.open_object().field("id", name).field("object", "model");
    w.field("created", now_s()).field("owned_by", "vllm").field("root", root).key("parent");
    if (lora != nullptr) {
        w.value(s.options().served_names.front()).null_field("max_model_len");
    } else {
        w.null().field("max_model_len", std::uint64_t{s.options().max_model_len});
    }
    w.key("permission").open_array().open_object();
    w.field("id", "modelperm-" + random_hex_id().substr(0, 16));
    w.field("object", "model_permission").field("created", now_s());
    w.field("allow_create_engine", false).field("allow_sampling", true);
    w.field("allow_logprobs", true).field("allow_search_indices", false);
    w.field("allow_view", true).field("allow_fine_tuning", false);
    w.field("organization", "*").null_field("group").field("is_blocking", false);
    w.close_object().close_array().close_object();
}

void write_source(json::Writer& w, const EventsConfig& c) {
    w.open_object().field("enable_kv_cache_events", c.enable_kv_cache_events);
    w.field("publisher", c.publisher).field("endpoint", c.endpoint).key("replay_endpoint");
    if (c.replay_endpoint.empty()) {
        w.null();
    } else {
        w.value(c.replay_endpoint);
    }
    w.field("buffer_steps", c.buffer_steps).field("hwm", c.hwm);
    w.field("max_queue_size", c.max_queue_size).field("topic", c.topic).close_object();
}

std::variant<std::vector<TokenId>, ApiError> tokens_of(const Service& s, const json::Value& body,
                                                       const std::string& text) {
    const TextModel& m = s.model();
    if (body.get("messages") == nullptr) {
        auto ids = m.encode(body.text_of("prompt"), body.flag("add_special_tokens", true));
        return ids ? std::variant<std::vector<TokenId>, ApiError>(std::move(ids).value())
                   : refuse(ids.error().what);
    }
    if (body.flag("continue_final_message", false) && body.flag("add_generation_prompt", true)) {
        return refuse(
            "Cannot set both `continue_final_message` and `add_generation_prompt` to True.");
    }
    auto prompt = m.render(body, text);
    if (!prompt) {
        return refuse(prompt.error().what);
    }
    auto ids = m.encode(*prompt, body.flag("add_special_tokens", false));
    return ids ? std::variant<std::vector<TokenId>, ApiError>(std::move(ids).value())
               : refuse(ids.error().what);
}

}  // namespace

http::Response handle_models(const Service& s) {
    const Options& o = s.options();
    json::Writer w;
    w.open_object().field("object", "list").key("data").open_array();
    for (const std::string& name : o.served_names) {
        write_model(w, s, name, o.model.empty() ? name : o.model, nullptr);
    }
    for (const Lora& lora : o.loras) {
        write_model(w, s, lora.name, lora.path, &lora);
    }
    return json_reply(w.close_array().close_object().take());
}

http::Response handle_kv_event_sources(const Service& s) {
    json::Writer w;
    w.open_object();
    // No order is promised; the highest rank comes first, as it did in the recording.
    for (std::size_t rank = s.publishers().size(); rank-- > 0;) {
        w.key(std::to_string(rank));
        write_source(w, s.publishers()[rank]->shown());
    }
    return json_reply(w.close_object().take());
}

http::Response handle_tokenize(const Service& s, const http::Request& request) {
    auto parsed = read_body(request);
    if (auto* r = std::get_if<http::Response>(&parsed)) {
        return std::move(*r);
    }
    const json::Value& body = std::get<json::Value>(parsed);
    const bool has_text = body.get("prompt") != nullptr;
    if (!has_text && body.get("messages") == nullptr) {
        return validate(body,
                        {{"prompt", Kind::Text, true, true}, {"messages", Kind::List, true, true}})
            .value_or(refuse("nothing to tokenize"))
            .response();
    }
    if (auto e = validate(body, {{"prompt", Kind::Text}, {"messages", Kind::List}})) {
        return e->response();
    }
    const auto named = s.find_model(body);
    if (const auto* e = std::get_if<ApiError>(&named)) {
        return e->response();
    }
    const auto result = tokens_of(s, body, request.body);
    if (const auto* e = std::get_if<ApiError>(&result)) {
        return e->response();
    }
    const auto& ids = std::get<std::vector<TokenId>>(result);
    json::Writer w;
    w.open_object().field("count", static_cast<std::uint64_t>(ids.size()));
    w.field("max_model_len", std::uint64_t{s.options().max_model_len}).key("tokens");
    write_ids(w, ids);
    w.key("token_strs");
    if (body.flag("return_token_strs", false)) {
        w.open_array();
        for (const TokenId id : ids) {
            w.value(s.model().spelling(id));
        }
        w.close_array();
    } else {
        w.null();
    }
    return json_reply(w.close_object().take());
}

http::Response handle_detokenize(const Service& s, const http::Request& request) {
    auto parsed = read_body(request);
    if (auto* r = std::get_if<http::Response>(&parsed)) {
        return std::move(*r);
    }
    const json::Value& body = std::get<json::Value>(parsed);
    if (auto e = validate(body, {{"tokens", Kind::List, false, true}})) {
        return e->response();
    }
    const auto named = s.find_model(body);
    if (const auto* e = std::get_if<ApiError>(&named)) {
        return e->response();
    }
    // Ids outside the vocabulary stand for nothing. Special tokens are shown here.
    std::vector<TokenId> ids;
    for (const json::Value& v : *body.get("tokens")->array()) {
        if (v.integer() != nullptr && *v.integer() >= 0) {
            ids.push_back(static_cast<TokenId>(*v.integer()));
        }
    }
    return json_reply(json::Writer()
                          .open_object()
                          .field("prompt", s.model().decode(ids, false))
                          .close_object()
                          .take());
}

http::Response handle_development(Service& s, const http::Request& request) {
    const auto word = [](std::string_view key, std::string_view value) {
        return json_reply(json::Writer().open_object().field(key, value).close_object().take());
    };
    const auto flag = [](std::string_view key, bool value) {
        return json_reply(json::Writer().open_object().field(key, value).close_object().take());
    };
    const auto pause = [&s](bool paused) {
        for (const auto& e : s.engines()) {
            e->set_paused(paused);
        }
    };
    if (request.path == "/reset_prefix_cache") {
        const bool preempts =
            request.query.find("reset_running_requests=true") != std::string::npos;
        bool all = true;
        for (const auto& e : s.engines()) {
            all = e->reset_prefix_cache(preempts) && all;
        }
        return flag("success", all);
    }
    if (request.path == "/pause") {
        pause(true);
        return word("status", "paused");
    }
    if (request.path == "/resume") {
        pause(false);
        return word("status", "resumed");
    }
    if (request.path == "/is_paused") {
        return flag("is_paused", s.engines().front()->is_paused());
    }
    if (request.path == "/is_sleeping") {
        return flag("is_sleeping", s.is_asleep());
    }
    if (request.path == "/wake_up") {
        s.set_asleep(false);
        pause(false);
        return json_reply(R"({"status":"awake","tags":null})");
    }
    // Sleep: weights leave, and what was computed with them is forgotten.
    s.set_asleep(true);
    pause(true);
    for (const auto& e : s.engines()) {
        (void)e->reset_prefix_cache(true);  // everything was preempted, so it succeeds
    }
    const int level = request.query.find("level=2") != std::string::npos ? 2 : 1;
    return json_reply(json::Writer()
                          .open_object()
                          .field("status", "sleeping")
                          .field("level", std::int64_t{level})
                          .close_object()
                          .take());
}

}  // namespace sluice::sim::vllm
