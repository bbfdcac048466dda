// Writes compact JSON into a string: the program's own small documents (receipts, errors, status).
//
//   Writer w(out); w.object([&] { w.member("id", id); w.key("legs"); w.array([&] { ... }); });
//
// Threads: any; a value on the stack.
// Errors:  none; text that is not UTF-8 is written with U+FFFD in the place of each bad byte, so
//          that what a client sent can never break the document.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::json {

// Bytes of the well-formed UTF-8 sequence at the front of `text`, which is not empty; 0 when there
// is none (RFC 3629).
std::size_t sequence_bytes(std::string_view text) noexcept;

// Appends `text` as a JSON string with its quotes.
void append_string(std::string& out, std::string_view text);

class Writer {
public:
    explicit Writer(std::string& out) : out_(out) {}

    template <class F>
    void object(F&& members) {
        open('{');
        members();
        close('}');
    }
    template <class F>
    void array(F&& elements) {
        open('[');
        elements();
        close(']');
    }
    void key(std::string_view name) {
        separate();
        append_string(out_, name);
        out_ += ':';
        is_value_due_ = true;
    }
    void value(std::string_view text) {
        separate();
        append_string(out_, text);
    }
    void value(const char* text) { value(std::string_view(text)); }
    void value(const std::string& text) { value(std::string_view(text)); }
    void value(bool b) { raw(b ? "true" : "false"); }
    void value(double number);
    template <std::integral N>
        requires(!std::same_as<N, bool>)
    void value(N number) {
        raw(std::to_string(number));
    }
    void null() { raw("null"); }
    // A value that is JSON already.
    void raw(std::string_view json) {
        separate();
        out_ += json;
    }
    template <class V>
    void member(std::string_view name, const V& v) {
        key(name);
        value(v);
    }

private:
    void separate() {
        if (is_value_due_) {
            is_value_due_ = false;
        } else if (is_comma_due_) {
            out_ += ',';
        }
        is_comma_due_ = true;
    }
    void open(char bracket) {
        separate();
        out_ += bracket;
        is_comma_due_ = false;
    }
    void close(char bracket) {
        out_ += bracket;
        is_comma_due_ = true;
    }

    std::string& out_;
    bool is_comma_due_ = false;
    bool is_value_due_ = false;
};

}  // namespace sluice::json
