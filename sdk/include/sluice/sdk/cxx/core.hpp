// Views over the C types, the error a plugin may throw, and the barrier that stops it.
//
// Threads: any.
// Errors:  guard() turns every exception into a sluice_status and fills the caller's sluice_error.
#pragma once
#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/sdk/base.h"

namespace sluice {

inline std::string_view view(sluice_str s) noexcept {
    return {s.ptr != nullptr ? s.ptr : "", s.len};
}
inline std::string_view text(sluice_bytes b) noexcept {
    return {b.ptr != nullptr ? reinterpret_cast<const char*>(b.ptr) : "", b.len};
}
inline std::span<const std::uint8_t> view(sluice_bytes b) noexcept {
    return {b.ptr, b.len};
}
inline sluice_str borrow(std::string_view s) noexcept {
    return {s.data(), s.size()};
}
inline sluice_bytes borrow(std::span<const std::uint8_t> b) noexcept {
    return {b.data(), b.size()};
}
inline sluice_bytes borrow_bytes(std::string_view s) noexcept {
    return {reinterpret_cast<const std::uint8_t*>(s.data()), s.size()};
}

// Thrown inside a plugin only; the thunks turn it into a sluice_status.
struct Failure : std::exception {
    Failure(sluice_status c, std::string t) : code(c), text(std::move(t)) {}
    const char* what() const noexcept override { return text.c_str(); }
    sluice_status code;
    std::string text;
};

// Fills *err (which may be NULL or shorter than this header's) and returns `code`. The text is cut
// on a UTF-8 boundary.
inline sluice_status report(sluice_error* err, sluice_status code, std::string_view what) noexcept {
    if (err == nullptr || err->size < sizeof(sluice_error)) {
        return code;
    }
    std::size_t n = std::min(what.size(), sizeof err->msg);
    while (n > 0 && n < what.size() && (static_cast<unsigned char>(what[n]) & 0xC0U) == 0x80U) {
        --n;
    }
    std::memcpy(err->msg, what.data(), n);
    err->len = static_cast<std::uint32_t>(n);
    err->code = code;
    return code;
}

inline sluice_error make_error() noexcept {
    sluice_error err{};
    err.size = sizeof err;
    return err;
}
inline std::string_view view(const sluice_error& err) noexcept {
    return {err.msg, std::min<std::size_t>(err.len, sizeof err.msg)};
}

// The exception barrier: every function pointer handed to the host runs in it.
template <class F>
sluice_status guard(sluice_error* err, F&& f) noexcept {
    try {
        return f();
    } catch (const Failure& e) {
        return report(err, e.code, e.text);
    } catch (const std::bad_alloc&) {
        return report(err, SLUICE_E_NO_MEMORY, "out of memory");
    } catch (const std::exception& e) {
        return report(err, SLUICE_E_INTERNAL, e.what());
    } catch (...) {
        return report(err, SLUICE_E_INTERNAL, "unknown exception");
    }
}

// A sluice_array as a range. Elements are walked by the writer's stride, so a host with longer
// elements than this header knows is read correctly; members newer than the plugin's target need
// SLUICE_HAS before they are read.
template <class T>
class Rows {
public:
    explicit Rows(sluice_array a) noexcept : array_(a) {}
    std::uint32_t size() const noexcept { return array_.count; }
    bool empty() const noexcept { return array_.count == 0; }
    const T& operator[](std::uint32_t i) const noexcept { return *SLUICE_AT(T, array_, i); }

    class Iterator {
    public:
        using iterator_category = std::forward_iterator_tag;
        using value_type = T;
        using difference_type = std::ptrdiff_t;
        using pointer = const T*;
        using reference = const T&;
        Iterator() noexcept = default;
        Iterator(const char* at, std::uint32_t stride) noexcept : at_(at), stride_(stride) {}
        reference operator*() const noexcept {
            return *static_cast<const T*>(static_cast<const void*>(at_));
        }
        pointer operator->() const noexcept { return &**this; }
        Iterator& operator++() noexcept {
            at_ += stride_;
            return *this;
        }
        Iterator operator++(int) noexcept {
            Iterator old = *this;
            ++*this;
            return old;
        }
        bool operator==(const Iterator& o) const noexcept { return at_ == o.at_; }

    private:
        const char* at_ = nullptr;
        std::uint32_t stride_ = 0;
    };
    Iterator begin() const noexcept {
        return {static_cast<const char*>(array_.base), array_.stride};
    }
    Iterator end() const noexcept {
        return {static_cast<const char*>(array_.base) + std::size_t{array_.count} * array_.stride,
                array_.stride};
    }

private:
    sluice_array array_;
};

template <class T>
sluice_array array_of(std::span<const T> items) noexcept {
    return {items.data(), static_cast<std::uint32_t>(items.size()),
            static_cast<std::uint32_t>(sizeof(T))};
}

}  // namespace sluice
