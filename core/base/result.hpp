// Expected outcomes as values: Error, Result<T>, Status.
//
// Threads: any.
// Errors:  this is how they travel. Codes are for branching, text is for people.
#pragma once
#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace sluice {

enum class Code {
    Invalid,      // the input is wrong
    NotFound,     //
    Exists,       // already there
    Immutable,    // a live object may not change this
    Limit,        // a size, count or rate bound was hit
    Unsupported,  // valid, but not built or not possible here
    Unavailable,  // the peer refused, is full or unreachable
    Timeout,      //
    Cancelled,    // whoever asked is gone
    Closed,       // the peer ended the connection
    Protocol,     // the peer spoke something we could not parse
    Io,           // the operating system said no
    Internal,     // our own fault
};

std::string_view to_string(Code code) noexcept;

struct Error {
    Code code = Code::Internal;
    std::string what;

    // Adds context in front: "rule chat-7: port out of range".
    Error at(std::string_view context) && {
        what.insert(0, ": ").insert(0, context);
        return std::move(*this);
    }
    Error at(std::string_view context) const& { return Error{code, what}.at(context); }
};

template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    bool ok() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return ok(); }

    T& value() & noexcept { return *std::get_if<0>(&state_); }
    const T& value() const& noexcept { return *std::get_if<0>(&state_); }
    T&& value() && noexcept { return std::move(*std::get_if<0>(&state_)); }
    T& operator*() & noexcept { return value(); }
    const T& operator*() const& noexcept { return value(); }
    T&& operator*() && noexcept { return std::move(*this).value(); }
    T* operator->() noexcept { return std::get_if<0>(&state_); }
    const T* operator->() const noexcept { return std::get_if<0>(&state_); }

    const Error& error() const& noexcept { return *std::get_if<1>(&state_); }
    Error&& error() && noexcept { return std::move(*std::get_if<1>(&state_)); }

private:
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error) : error_(std::move(error)) {}

    bool ok() const noexcept { return !error_.has_value(); }
    explicit operator bool() const noexcept { return ok(); }
    const Error& error() const& noexcept { return *error_; }
    Error&& error() && noexcept { return std::move(*error_); }

private:
    std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace sluice
