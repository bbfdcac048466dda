#include "tests/sim/vllm/params.hpp"

#include <charconv>
#include <cmath>

#include "core/base/random.hpp"

namespace sluice::sim::vllm {
namespace {

constexpr std::uint32_t kMaxLogprobs = 20;

std::optional<std::int64_t> integer(const json::Value& body, std::string_view key) {
    const json::Value* v = body.get(key);
    if (v == nullptr) {
        return std::nullopt;
    }
    if (const auto* n = v->integer()) {
        return *n;
    }
    if (const auto* d = v->real()) {
        return static_cast<std::int64_t>(*d);
    }
    if (const auto* b = v->boolean()) {
        return *b ? 1 : 0;
    }
    std::int64_t n = 0;
    if (const auto* s = v->text()) {
        std::from_chars(s->data(), s->data() + s->size(), n);
    }
    return n;
}

std::optional<double> number(const json::Value& body, std::string_view key) {
    const json::Value* v = body.get(key);
    if (v != nullptr && v->real() != nullptr) {
        return *v->real();
    }
    const auto n = integer(body, key);
    return n ? std::optional(static_cast<double>(*n)) : std::nullopt;
}

std::uint32_t small(std::int64_t n) noexcept {
    return n < 0 ? 0 : n > 0xFFFFFFFFLL ? 0xFFFFFFFFU : static_cast<std::uint32_t>(n);
}

void read_stops(const json::Value& body, Sampling& s) {
    if (const json::Value* stop = body.get("stop")) {
        if (stop->text() != nullptr) {
            s.stop.push_back(*stop->text());
        }
        for (const json::Value& v : stop->array() != nullptr ? *stop->array() : json::Array()) {
            if (v.text() != nullptr) {
                s.stop.push_back(*v.text());
            }
        }
    }
    const json::Value* ids = body.get("stop_token_ids");
    for (const json::Value& v :
         ids != nullptr && ids->array() != nullptr ? *ids->array() : json::Array()) {
        if (v.integer() != nullptr) {
            s.stop_ids.push_back(small(*v.integer()));
        }
    }
}

// A bias that beats any logit. With several such the model would choose among them; then none is
// forced here.
std::optional<TokenId> forced_by_bias(const json::Value& body) {
    constexpr double kOverwhelming = 50;
    const json::Value* bias = body.get("logit_bias");
    const json::Object* entries = bias == nullptr ? nullptr : bias->object();
    if (entries == nullptr || entries->size() != 1) {
        return std::nullopt;
    }
    const json::Member& m = entries->front();
    const double by = m.value.real() != nullptr      ? *m.value.real()
                      : m.value.integer() != nullptr ? static_cast<double>(*m.value.integer())
                                                     : 0;
    TokenId id = 0;
    const auto r = std::from_chars(m.key.data(), m.key.data() + m.key.size(), id);
    return r.ec == std::errc() && by >= kOverwhelming ? std::optional(id) : std::nullopt;
}

std::string request_id(const json::Value& body, const http::Request& request) {
    if (const std::string* h = request.header("x-request-id")) {
        return *h;
    }
    const std::string_view given = body.text_of("request_id");
    return given.empty() ? random_hex_id().substr(0, 16) : std::string(given);
}

}  // namespace

std::vector<Field> common_fields() {
    return {{"model", Kind::Text},
            {"frequency_penalty", Kind::Number},
            {"logit_bias", Kind::Object},
            {"max_tokens", Kind::Integer},
            {"n", Kind::Integer, false},
            {"presence_penalty", Kind::Number},
            {"seed", Kind::Integer},
            {"stop", Kind::TextOrList},
            {"stream", Kind::Boolean},
            {"stream_options", Kind::Object},
            {"temperature", Kind::Number},
            {"top_p", Kind::Number},
            {"user", Kind::Text},
            {"top_k", Kind::Integer},
            {"min_p", Kind::Number},
            {"stop_token_ids", Kind::List},
            {"include_stop_str_in_output", Kind::Boolean, false},
            {"ignore_eos", Kind::Boolean, false},
            {"min_tokens", Kind::Integer, false},
            {"prompt_logprobs", Kind::Integer},
            {"return_token_ids", Kind::Boolean},
            {"cache_salt", Kind::Text},
            {"kv_transfer_params", Kind::Object},
            {"priority", Kind::Integer, false}};
}

Params read_params(const json::Value& body, const http::Request& request, const Options& options,
                   std::string_view prefix) {
    Params p;
    p.streams = body.flag("stream", false);
    const json::Value* so = body.get("stream_options");
    p.includes_usage = options.forces_usage || (so != nullptr && so->flag("include_usage", false));
    p.has_continuous_usage = options.forces_usage || (so != nullptr && p.includes_usage &&
                                                      so->flag("continuous_usage_stats", false));
    p.echoes = body.flag("echo", false);
    p.returns_token_ids = body.flag("return_token_ids", false);
    p.choices = small(integer(body, "n").value_or(1));
    p.asked_max_tokens = integer(body, "max_tokens");
    p.salt = body.text_of("cache_salt");
    const std::string* session = request.header("x-session-id");
    p.session_id = body.get("session_id") != nullptr ? std::string(body.text_of("session_id"))
                   : session != nullptr              ? *session
                                                     : "";
    p.id = std::string(prefix) + request_id(body, request);
    if (const auto n = integer(body, "prompt_logprobs")) {
        p.prompt_logprobs = small(*n);
    }
    if (const json::Value* extra = body.get("vllm_xargs")) {
        p.repeats_hits = extra->text_of("kv_cache_report_mode") == "full";
    }
    if (const json::Value* held = body.get("structured_outputs")) {
        const json::Value* choice = held->get("choice");
        if (choice != nullptr && choice->array() != nullptr && !choice->array()->empty()) {
            p.structured_choice = &choice->array()->front();
        }
    }
    p.sampling.min_tokens = small(integer(body, "min_tokens").value_or(0));
    p.sampling.ignores_eos = body.flag("ignore_eos", false);
    p.sampling.includes_stop = body.flag("include_stop_str_in_output", false);
    p.sampling.forced = forced_by_bias(body);
    read_stops(body, p.sampling);
    return p;
}

Check check_stream_options(const json::Value& body) {
    if (body.get("stream_options") != nullptr && !body.flag("stream", false)) {
        return refuse_param("Stream options can only be defined when `stream=True`.",
                            "stream_options");
    }
    return std::nullopt;
}

Check check_salt(const json::Value& body) {
    const json::Value* salt = body.get("cache_salt");
    if (salt != nullptr && body.text_of("cache_salt").empty()) {
        return refuse_param("Parameter 'cache_salt' must be a non-empty string if provided.",
                            "cache_salt");
    }
    return std::nullopt;
}

Check check_sampling(const json::Value& body, const Params& p) {
    if (p.choices < 1) {
        return refuse("n must be at least 1, got " +
                      std::to_string(integer(body, "n").value_or(0)) + ".");
    }
    if (const auto t = number(body, "temperature")) {
        const std::string text = json::float_text(*t);
        if (!std::isfinite(*t)) {
            return refuse_value("temperature must be a finite number, got " + text + ".",
                                "temperature", text);
        }
        if (*t < 0) {
            return refuse_value("temperature must be non-negative, got " + text + ".",
                                "temperature", text);
        }
    }
    if (const auto top_p = number(body, "top_p"); top_p && !(*top_p > 0 && *top_p <= 1)) {
        const std::string text = json::float_text(*top_p);
        return refuse_value("top_p must be in (0, 1], got " + text + ".", "top_p", text);
    }
    if (p.sampling.min_tokens > p.sampling.max_tokens) {
        return refuse("min_tokens must be less than or equal to max_tokens=" +
                      std::to_string(p.sampling.max_tokens) + ", got " +
                      std::to_string(p.sampling.min_tokens) + ".");
    }
    if (p.logprobs && *p.logprobs > kMaxLogprobs) {
        const std::string n = std::to_string(*p.logprobs);
        return refuse_value(
            "Requested sample logprobs of " + n +
                ", which is greater than max allowed: " + std::to_string(kMaxLogprobs),
            "logprobs", n);
    }
    return std::nullopt;
}

std::variant<std::uint32_t, ApiError> room(const Params& p, std::size_t prompt_tokens,
                                           std::uint32_t max_model_len,
                                           std::optional<std::uint32_t> otherwise) {
    const std::string limit = std::to_string(max_model_len);
    if (p.asked_max_tokens && *p.asked_max_tokens > max_model_len) {
        const std::string asked = std::to_string(*p.asked_max_tokens);
        return refuse_value("max_tokens=" + asked + " cannot be greater than max_model_len=" +
                                limit + ". Please request fewer output tokens.",
                            "max_tokens", asked);
    }
    if (prompt_tokens > max_model_len) {
        // The tokenizer is told to stop one past the limit, so that is all the engine knows.
        const std::string at_least = std::to_string(max_model_len + 1);
        return refuse_value("This model's maximum context length is " + limit +
                                " tokens. However, your prompt contains at least " + at_least +
                                " input tokens, which exceeds this limit even without any output "
                                "tokens. Please reduce the length of the input prompt.",
                            "input_tokens", at_least);
    }
    const auto left = static_cast<std::int64_t>(max_model_len - prompt_tokens);
    const std::int64_t wanted =
        p.asked_max_tokens.value_or(otherwise ? static_cast<std::int64_t>(*otherwise) : left);
    const std::int64_t granted = std::min(wanted, left);
    if (granted < 1 && !(p.echoes && wanted == 0)) {
        const std::string got = std::to_string(granted);
        return refuse_value("max_tokens must be at least 1, got " + got + ".", "max_tokens", got);
    }
    return static_cast<std::uint32_t>(std::max<std::int64_t>(1, granted));
}

}  // namespace sluice::sim::vllm
