// A client's request as engine adapters see it.
//
// Threads: one request's; borrows from what it is made of.
#pragma once
#include <sluice/sdk/request.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/json/body.hpp"
#include "core/route/facts.hpp"
#include "core/route/prompt.hpp"

namespace sluice::flow {

class SdkRequest {
public:
    struct From {
        const route::Facts& facts;
        std::string_view request_id;
        std::string_view served_model;
        std::string_view client;
        std::string_view body;
        const json::Body* view = nullptr;       // of `body`; null: it is no JSON object
        const route::Prompt* prompt = nullptr;  // null: not tokenized
        bool is_dry_run = false;
    };
    explicit SdkRequest(const From& from);
    SdkRequest(const SdkRequest&) = delete;
    SdkRequest& operator=(const SdkRequest&) = delete;

    // `attempt` from 0.
    const sluice_request& at_attempt(std::uint32_t attempt) noexcept {
        request_.attempt = attempt;
        return request_;
    }

private:
    std::vector<sluice_field> fields_;
    sluice_request request_{};
};

}  // namespace sluice::flow
