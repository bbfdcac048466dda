// A client's request as the host shows it to adapters.
//
// Threads: none.
#pragma once
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sluice/sdk.hpp"

namespace sluice::test {

class Request {
public:
    explicit Request(std::string body, const char* path = "/v1/completions")
        : body_(std::move(body)), path_(path) {
        const auto members = spans::members_of(body_);
        REQUIRE(members);
        for (const spans::Span& m : *members) {
            sluice_field f{};
            f.size = sizeof f;
            f.name = borrow(m.name);
            f.at = static_cast<std::uint64_t>(m.name.data() - body_.data()) - 1;
            f.value_at = static_cast<std::uint64_t>(m.value.data() - body_.data());
            f.value_bytes = m.value.size();
            const char c = m.value.front();
            f.type = c == '"'               ? SLUICE_JSON_STRING
                     : c == '['             ? SLUICE_JSON_ARRAY
                     : c == '{'             ? SLUICE_JSON_OBJECT
                     : c == 'n'             ? SLUICE_JSON_NULL
                     : c == 't' || c == 'f' ? SLUICE_JSON_BOOL
                                            : SLUICE_JSON_NUMBER;
            fields_.push_back(f);
        }
        raw.size = sizeof raw;
        raw.id = 4711;
        raw.request_id = borrow("client-id");
        raw.path = borrow(path_);
        raw.body = borrow_bytes(body_);
        raw.fields = array_of(std::span<const sluice_field>(fields_));
    }
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    const std::string& body() const noexcept { return body_; }

    sluice_request raw{};

private:
    std::string body_;
    std::string path_;
    std::vector<sluice_field> fields_;
};

}  // namespace sluice::test
