#include "core/flow/sdk_request.hpp"

#include <atomic>

namespace sluice::flow {
namespace {

// SLUICE_JSON_* are json::Type's numbers.
static_assert(static_cast<int>(json::Type::Null) == SLUICE_JSON_NULL &&
              static_cast<int>(json::Type::Object) == SLUICE_JSON_OBJECT);

sluice_str text(std::string_view s) noexcept {
    return {s.data(), s.size()};
}

std::uint64_t next_id() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

SdkRequest::SdkRequest(const From& from) {
    request_.size = sizeof request_;
    request_.flags = static_cast<std::uint32_t>(from.facts.is_stream ? SLUICE_REQ_STREAM : 0) |
                     static_cast<std::uint32_t>(from.is_dry_run ? SLUICE_REQ_DRY_RUN : 0);
    request_.id = next_id();
    request_.request_id = text(from.request_id);
    request_.path = text(from.facts.path);
    request_.model = text(from.served_model);
    request_.client = text(from.client);
    request_.body = {reinterpret_cast<const std::uint8_t*>(from.body.data()), from.body.size()};
    if (from.prompt != nullptr && from.prompt->miss.empty()) {
        request_.prompt_tokens = static_cast<std::uint32_t>(from.prompt->tokens.size());
    }
    if (from.view == nullptr) {
        return;
    }
    fields_.reserve(from.view->fields().size());
    for (const json::Field& field : from.view->fields()) {
        sluice_field out{};
        out.size = sizeof out;
        out.type = static_cast<std::uint32_t>(field.type);
        out.name = text(field.name);
        out.at = field.at;
        out.value_at = field.value_at;
        out.value_bytes = field.value_bytes;
        fields_.push_back(out);
    }
    request_.fields = {fields_.data(), static_cast<std::uint32_t>(fields_.size()),
                       sizeof(sluice_field)};
}

}  // namespace sluice::flow
