#include "plugins/trtllm/facts.hpp"

#include <algorithm>
#include <charconv>

#include "plugins/trtllm/json.hpp"

namespace sluice::trtllm {

namespace {

struct Sample {
    std::string_view name;
    double value = 0;
};

std::optional<Sample> parse_line(std::string_view line) {
    const std::size_t name_end = line.find_first_of("{ ");
    if (name_end == std::string_view::npos) {
        return std::nullopt;
    }
    Sample out;
    out.name = line.substr(0, name_end);
    // A label's value may hold a brace; the set ends at the last one, before the number.
    std::size_t at = line[name_end] == '{' ? line.rfind('}') : name_end;
    if (at == std::string_view::npos || at < name_end) {
        return std::nullopt;
    }
    at = line.find_first_not_of(" }", at);
    if (at == std::string_view::npos) {
        return std::nullopt;
    }
    const auto [end, error] =
        std::from_chars(line.data() + at, line.data() + line.size(), out.value);
    return error == std::errc() ? std::optional(out) : std::nullopt;
}

std::uint64_t count_of(double v) noexcept {
    return v > 0 && v < 1.8e19 ? static_cast<std::uint64_t>(v) : 0;
}
std::uint32_t small_count_of(double v) noexcept {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(count_of(v), UINT32_MAX));
}

void read(const Sample& sample, Load& out) {
    constexpr std::string_view kPrefix = "trtllm_";
    if (!sample.name.starts_with(kPrefix)) {
        return;
    }
    const std::string_view name = sample.name.substr(kPrefix.size());
    if (name == "num_requests_running" || name == "num_active_requests") {
        out.running = small_count_of(sample.value);
    } else if (name == "num_requests_waiting" || name == "server_queue_length" ||
               name == "num_queued_requests") {
        out.waiting = small_count_of(sample.value);
    } else if (name == "kv_cache_utilization") {
        out.kv_used = std::clamp(sample.value, 0.0, 1.0);
    } else if (name == "kv_cache_max_blocks") {
        out.total_blocks = count_of(sample.value);
    } else if (name == "request_success_total" || name == "prompt_tokens_total" ||
               name == "generation_tokens_total") {
        out.progress += count_of(sample.value);
    } else if (name == "prompt_cached_tokens_total") {
        out.hit_tokens = count_of(sample.value);
    }
}

}  // namespace

std::optional<std::string> parse_version(std::string_view body) {
    json::Document doc;
    const auto version =
        doc.parse(body) ? json::text(json::member(doc.root(), "version")) : std::nullopt;
    return version ? std::optional(std::string(*version)) : std::nullopt;
}

std::optional<std::vector<std::string>> parse_models(std::string_view body) {
    json::Document doc;
    simdjson::dom::array data;
    if (!doc.parse(body) || doc.root()["data"].get(data) != simdjson::SUCCESS) {
        return std::nullopt;
    }
    std::vector<std::string> out;
    for (const json::Value entry : data) {
        const auto name = json::text(json::member(entry, "id"));
        if (name && out.size() < kMaxModels) {
            out.emplace_back(*name);
        }
    }
    return out;
}

Load parse_load(std::string_view text) {
    Load out;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        if (line.empty() || line.front() == '#') {
            continue;
        }
        if (const auto sample = parse_line(line)) {
            read(*sample, out);
        }
    }
    return out;
}

}  // namespace sluice::trtllm
