// What request and response heads have in common.
#include "core/http/head_parser.hpp"

#include <algorithm>
#include <cstring>

#include "core/http/characters.hpp"

namespace sluice::http {
namespace {

constexpr std::size_t kUsualFields = 16;
constexpr std::size_t kKeptFields = 32;  // beyond that a quiet connection gives the memory back

}  // namespace

namespace detail {

FieldParser::FieldParser(const HeadLimits& limits) : limits_(limits) {
    fields_.reserve(kUsualFields);
}

void FieldParser::reset() {
    fields_.clear();
    if (fields_.capacity() > kKeptFields) {
        std::vector<Header>().swap(fields_);
        fields_.reserve(kUsualFields);
    }
    base_ = nullptr;
    at_ = scanned_ = 0;
    content_length_ = 0;
    connection_ = host_ = expect_ = {};
    joined_connection_.clear();
    error_text_ = "";
    error_status_ = 0;
    hosts_ = 0;
    has_length_ = has_start_line_ = chunked_ = foreign_coding_ = broken_coding_ = false;
    close_ = keep_alive_ = false;
}

Parse FieldParser::fail(int status, const char* text) noexcept {
    error_status_ = status;
    error_text_ = text;
    return Parse::Failed;
}

void FieldParser::rebase(std::string_view bytes) noexcept {
    if (base_ == bytes.data()) {
        return;
    }
    if (base_ != nullptr) {
        const std::ptrdiff_t by = bytes.data() - base_;
        for (Header& field : fields_) {
            move_view(field.name, by);
            move_view(field.value, by);
        }
        if (joined_connection_.empty()) {
            move_view(connection_, by);
        }
        move_view(host_, by);
        move_view(expect_, by);
        rebase_start_line(by);
    }
    base_ = bytes.data();
}

Parse FieldParser::next_line(std::string_view bytes, std::string_view& line) noexcept {
    scanned_ = std::max(scanned_, at_);
    const void* found = bytes.size() > scanned_
                            ? std::memchr(bytes.data() + scanned_, '\n', bytes.size() - scanned_)
                            : nullptr;
    if (found == nullptr) {
        scanned_ = bytes.size();
        return bytes.size() > limits_.max_bytes ? fail(431, "head too large") : Parse::NeedMore;
    }
    const auto lf = static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
    if (lf >= limits_.max_bytes) {
        return fail(431, "head too large");
    }
    if (lf == at_ || bytes[lf - 1] != '\r') {
        return fail(400, "line feed without carriage return in the head");
    }
    line = bytes.substr(at_, lf - 1 - at_);
    at_ = scanned_ = lf + 1;
    return Parse::Done;
}

Parse FieldParser::field_line(std::string_view line) {
    const char* const first = line.data();
    const char* const end = first + line.size();
    const char* colon = first;
    while (is_token_char(*colon)) {  // the CR behind the line ends this at the latest
        ++colon;
    }
    if (colon == first || *colon != ':') {
        return fail(
            400, *first == ' ' || *first == '\t' ? "folded header line" : "malformed header name");
    }
    const char* value = colon + 1;
    const char* value_end = end;
    while (value < value_end && (*value == ' ' || *value == '\t')) {
        ++value;
    }
    while (value < value_end && (value_end[-1] == ' ' || value_end[-1] == '\t')) {
        --value_end;
    }
    const Header field{{first, static_cast<std::size_t>(colon - first)},
                       {value, static_cast<std::size_t>(value_end - value)}};
    if (!is_field_value(field.value)) {
        return fail(400, "control character in a header value");
    }
    if (fields_.size() == limits_.max_headers) {
        return fail(431, "too many headers");
    }
    fields_.push_back(field);
    return known_field(field.name, field.value);
}

Parse FieldParser::known_field(std::string_view name, std::string_view value) {
    switch (name.size()) {
        case 4:
            if (equals_ignore_case(name, "host")) {
                ++hosts_;
                host_ = value;
            }
            break;
        case 6:
            if (equals_ignore_case(name, "expect")) {
                expect_ = value;
            }
            break;
        case 10:
            if (equals_ignore_case(name, "connection")) {
                note_connection(value);
            }
            break;
        case 14:
            if (equals_ignore_case(name, "content-length")) {
                return note_length(value);
            }
            break;
        case 17:
            if (equals_ignore_case(name, "transfer-encoding")) {
                note_coding(value);
            }
            break;
        default:
            break;
    }
    return Parse::Done;
}

void FieldParser::note_connection(std::string_view value) {
    bool names_fields = false;
    std::string_view rest = value;
    while (!rest.empty()) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        const std::string_view item = trim_blanks(rest.substr(0, comma));
        rest.remove_prefix(std::min(comma + 1, rest.size()));
        if (equals_ignore_case(item, "close")) {
            close_ = true;
        } else if (equals_ignore_case(item, "keep-alive")) {
            keep_alive_ = true;
        } else {
            names_fields = names_fields || !item.empty();
        }
    }
    // What only says close or keep-alive names no field to drop, which spares every look-up.
    if (!names_fields) {
        return;
    }
    if (connection_.empty()) {
        connection_ = value;
        return;
    }
    std::string joined(connection_);
    joined.append(", ").append(value);
    joined_connection_.swap(joined);
    connection_ = joined_connection_;
}

Parse FieldParser::note_length(std::string_view value) noexcept {
    // 18 digits are an exabyte; more is nobody's body and could overflow.
    if (value.empty() || value.size() > 18 ||
        !std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; })) {
        return fail(400, "malformed Content-Length");
    }
    std::uint64_t length = 0;
    for (const char c : value) {
        length = length * 10 + static_cast<std::uint64_t>(c - '0');
    }
    if (has_length_ && length != content_length_) {
        return fail(400, "Content-Length headers differ");
    }
    has_length_ = true;
    content_length_ = length;
    return Parse::Done;
}

void FieldParser::note_coding(std::string_view value) noexcept {
    if (value.empty()) {
        broken_coding_ = true;
    }
    while (!value.empty()) {
        const std::size_t comma = std::min(value.find(','), value.size());
        const std::string_view item = trim_blanks(value.substr(0, comma));
        value.remove_prefix(std::min(comma + 1, value.size()));
        broken_coding_ = broken_coding_ || chunked_ || item.empty();
        if (equals_ignore_case(item, "chunked")) {
            chunked_ = true;
        } else {
            foreign_coding_ = true;
        }
    }
}

}  // namespace detail

}  // namespace sluice::http
