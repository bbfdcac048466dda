#include "core/fleet/probe_http.hpp"

#include <array>

#include "core/fleet/probe_try.hpp"
#include "core/http/body_decoder.hpp"
#include "core/http/head_parser.hpp"

namespace sluice::fleet {
namespace {

constexpr std::size_t kStep = 8192;
// Whoever sends nothing but interim answers, faster than they are read, is never waited for.
constexpr int kMaxInterim = 64;

// The head of the final answer; `bytes` holds it and what came with it.
net::Task<Status> read_head(ProbeWire& wire, std::string& bytes, http::ResponseParser& parser,
                            net::Wait wait) {
    std::array<char, kStep> step;
    int interim = 0;
    for (;;) {
        const auto parsed = bytes.empty() ? http::Parse::NeedMore : parser.feed(bytes);
        if (parsed == http::Parse::Failed) {
            co_return Error{Code::Protocol, std::string("answer: ") + parser.error_text()};
        }
        if (parsed == http::Parse::Done && !parser.is_interim()) {
            co_return Status{};
        }
        if (parsed == http::Parse::Done) {
            if (++interim > kMaxInterim) {
                co_return Error{Code::Protocol, "answer: too many interim answers"};
            }
            bytes.erase(0, parser.head_bytes());
            parser.reset();
            continue;
        }
        auto got = co_await wire.recv(step, wait);
        if (!got) {
            co_return std::move(got).error().at("answer");
        }
        if (*got == 0) {
            co_return Error{Code::Closed, "answer: the connection ended before it"};
        }
        bytes.append(step.data(), *got);
    }
}

// Up to its end, or as far as answers are read. A healthy head with a body that breaks off is not
// healthy.
net::Task<Status> read_body(ProbeWire& wire, std::string_view begun, http::Framing framing,
                            AnswerSearch& search, net::Wait wait) {
    std::array<char, kStep> step;
    http::BodyDecoder decoder(framing);
    std::string_view bytes = begun;
    for (;;) {
        while (!bytes.empty() && decoder.state() == http::BodyDecoder::State::More) {
            search.feed(decoder.next(bytes));
        }
        if (decoder.state() == http::BodyDecoder::State::Failed) {
            co_return Error{Code::Protocol, std::string("body: ") + decoder.error_text()};
        }
        if (decoder.done() || search.is_full()) {
            co_return Status{};
        }
        auto got = co_await wire.recv(step, wait);
        if (!got) {
            co_return std::move(got).error().at("body");
        }
        if (*got == 0 && decoder.end_of_input() != http::BodyDecoder::State::Done) {
            co_return Error{Code::Closed, "body: the connection ended within it"};
        }
        bytes = {step.data(), *got};
    }
}

}  // namespace

std::string http_question(const rules::ProbeSpec& spec) {
    const std::string address =
        net::Address::parse_ip(spec.address, spec.port).value().format();  // checked when opened
    const std::string& host = spec.domain.empty() ? address : spec.domain;
    std::string out = spec.method + " " + (spec.method == "CONNECT" ? address : spec.path) +
                      " HTTP/" + spec.version + "\r\nHost: " + host +
                      "\r\nUser-Agent: sluice-probe\r\n";
    if (spec.method == "POST" || spec.method == "PUT" || spec.method == "PATCH") {
        out += "Content-Length: 0\r\n";
    }
    return out + "Connection: close\r\n\r\n";
}

net::Task<Status> ask_http(ProbeWire& wire, const rules::ProbeSpec& spec, net::Wait wait) {
    const std::string question = http_question(spec);
    Status sent = co_await wire.send(question, wait);
    if (!sent) {
        co_return std::move(sent).error().at("send");
    }
    std::string bytes;
    http::ResponseParser parser;
    const Status has_head = co_await read_head(wire, bytes, parser, wait);
    if (!has_head) {
        co_return has_head;
    }
    const int status = parser.head().status;
    if (!rules::is_expected(spec.codes, status)) {
        co_return Error{Code::Unavailable, "status " + std::to_string(status)};
    }
    if (!rules::has_answer_body(spec.method)) {
        co_return Status{};
    }
    AnswerSearch search(spec.reply);
    const std::string_view begun = std::string_view(bytes).substr(parser.head_bytes());
    const Status read = co_await read_body(wire, begun, parser.framing(false), search, wait);
    if (!read) {
        co_return read;
    }
    if (!search.is_found()) {
        co_return Error{Code::Unavailable, "the body does not hold what it must"};
    }
    co_return Status{};
}

}  // namespace sluice::fleet
