#include "plugins/vllm/facts.hpp"

#include <bit>
#include <charconv>

#include "plugins/vllm/discovery.hpp"
#include "plugins/vllm/json.hpp"

namespace sluice::vllm {

namespace {

struct Sample {
    std::string_view name, labels;
    double value = 0;

    // The raw text of a label's value; escapes are not resolved (none of ours holds one).
    std::string_view label(std::string_view key) const {
        for (std::size_t at = 0; (at = labels.find(key, at)) != std::string_view::npos;
             at += key.size()) {
            const bool begins = at == 0 || labels[at - 1] == ',' || labels[at - 1] == ' ';
            const std::string_view rest = labels.substr(at + key.size());
            if (begins && rest.starts_with("=\"")) {
                const std::size_t end = rest.find('"', 2);
                return end == std::string_view::npos ? std::string_view() : rest.substr(2, end - 2);
            }
        }
        return {};
    }
};

std::optional<double> to_double(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end != text.data() ? std::optional(value) : std::nullopt;
}

std::optional<Sample> parse_line(std::string_view line) {
    Sample out;
    const std::size_t name_end = line.find_first_of("{ ");
    if (name_end == std::string_view::npos) {
        return std::nullopt;
    }
    out.name = line.substr(0, name_end);
    std::size_t at = name_end;
    if (line[at] == '{') {
        // A label's value may hold a brace; the set ends at the last one, before the number.
        const std::size_t close = line.rfind('}');
        if (close == std::string_view::npos || close < at) {
            return std::nullopt;
        }
        out.labels = line.substr(at + 1, close - at - 1);
        at = close + 1;
    }
    at = line.find_first_not_of(' ', at);
    const auto value = at == std::string_view::npos ? std::nullopt : to_double(line.substr(at));
    if (!value) {
        return std::nullopt;
    }
    out.value = *value;
    return out;
}

std::uint64_t count_of(double v) noexcept {
    return v > 0 && v < 1.8e19 ? static_cast<std::uint64_t>(v) : 0;
}

class MetricsReader {
public:
    Metrics out;

    void read(const Sample& s) {
        constexpr std::string_view kPrefix = "vllm:";
        if (!s.name.starts_with(kPrefix)) {
            if (s.name == "process_start_time_seconds" && out.epoch == 0) {
                out.epoch = std::bit_cast<std::uint64_t>(s.value);
            }
            return;
        }
        const std::string_view name = s.name.substr(kPrefix.size());
        if (name == "num_requests_running") {
            rank(s).running =
                static_cast<std::uint32_t>(std::min<std::uint64_t>(count_of(s.value), UINT32_MAX));
        } else if (name == "num_requests_waiting") {
            rank(s).waiting =
                static_cast<std::uint32_t>(std::min<std::uint64_t>(count_of(s.value), UINT32_MAX));
        } else if (name == "kv_cache_usage_perc" || name == "gpu_cache_usage_perc") {
            rank(s).kv_used = std::clamp(s.value, 0.0, 1.0);
        } else if (name == "prompt_tokens_total" || name == "generation_tokens_total") {
            rank(s).progress += count_of(s.value);
        } else if (name == "prefix_cache_hits_total" || name == "gpu_prefix_cache_hits_total") {
            rank(s).hit_tokens += count_of(s.value);
        } else if (name == "nixl_num_kv_expired_reqs_total") {
            out.holds_expired = out.holds_expired.value_or(0) + count_of(s.value);
        } else if (name == "nixl_num_notifications_after_expiry_total") {
            out.holds_read_late = out.holds_read_late.value_or(0) + count_of(s.value);
        } else if (name == "engine_sleep_state" && s.label("sleep_state") == "awake") {
            out.asleep = out.asleep.value_or(false) || s.value == 0;
        } else if (name == "prompt_tokens_created" && !has_created_) {
            // When the counter was made: another process, another moment.
            has_created_ = true;
            out.epoch = std::bit_cast<std::uint64_t>(s.value);
        } else if (name == "cache_config_info") {
            cache_config(s);
        }
    }

private:
    RankLoad& rank(const Sample& s) {
        std::uint32_t number = 0;
        const std::string_view label = s.label("engine");
        std::from_chars(label.data(), label.data() + label.size(), number);
        return number < kMaxRanks ? out.ranks[number] : spill_;
    }
    void cache_config(const Sample& s) {
        const auto number = [&](std::string_view key) -> std::optional<std::uint64_t> {
            std::uint64_t v = 0;
            const std::string_view t = s.label(key);
            const auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), v);
            return error == std::errc() && end == t.data() + t.size() && v != 0 ? std::optional(v)
                                                                                : std::nullopt;
        };
        if (const auto v = number("block_size"); v && *v <= UINT32_MAX) {
            out.block_size = static_cast<std::uint32_t>(*v);
        }
        out.total_blocks = number("num_gpu_blocks");
        const std::string_view caching = s.label("enable_prefix_caching");
        if (caching == "True" || caching == "False") {
            out.prefix_caching = caching == "True";
        }
        out.hash_algorithm = s.label("prefix_caching_hash_algo");
    }
    RankLoad spill_;
    bool has_created_ = false;
};

}  // namespace

Metrics parse_metrics(std::string_view text) {
    MetricsReader reader;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        if (line.empty() || line.front() == '#') {
            continue;
        }
        if (const auto sample = parse_line(line)) {
            reader.read(*sample);
        }
    }
    return std::move(reader.out);
}

std::optional<std::string> parse_version(std::string_view body) {
    json::Document doc;
    return doc.parse(body) ? json::owned(json::text(json::member(doc.root(), "version")))
                           : std::nullopt;
}

std::optional<std::vector<Model>> parse_models(std::string_view body) {
    json::Document doc;
    simdjson::dom::array data;
    if (!doc.parse(body) || doc.root()["data"].get(data) != simdjson::SUCCESS) {
        return std::nullopt;
    }
    std::vector<Model> out;
    for (const json::Value& entry : data) {
        const auto name = json::text(json::member(entry, "id"));
        if (!name || out.size() == kMaxModels) {
            continue;
        }
        Model model;
        model.name = *name;
        model.parent = json::text(json::member(entry, "parent")).value_or("");
        model.path = json::text(json::member(entry, "root")).value_or("");
        const auto length = json::number(json::member(entry, "max_model_len"));
        model.max_tokens =
            length && *length <= UINT32_MAX ? static_cast<std::uint32_t>(*length) : 0;
        out.push_back(std::move(model));
    }
    return out;
}

}  // namespace sluice::vllm
