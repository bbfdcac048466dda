#include "plugins/vllm/encode.hpp"

#include <algorithm>

namespace sluice::vllm {

void Cbor::head(unsigned major, std::uint64_t argument) {
    const auto first = [&](unsigned info) {
        out_ += static_cast<char>(major << 5U | info);
    };
    std::size_t bytes = 0;
    if (argument < 24) {
        first(static_cast<unsigned>(argument));
    } else if (argument <= 0xff) {
        first(24), bytes = 1;
    } else if (argument <= 0xffff) {
        first(25), bytes = 2;
    } else if (argument <= 0xffffffff) {
        first(26), bytes = 4;
    } else {
        first(27), bytes = 8;
    }
    while (bytes > 0) {
        out_ += static_cast<char>(argument >> (8 * --bytes));
    }
}

void Cbor::integer(std::int64_t v) {
    if (v < 0) {
        head(1, ~static_cast<std::uint64_t>(v));
    } else {
        head(0, static_cast<std::uint64_t>(v));
    }
}

void Cbor::bytes(std::string_view b) {
    head(2, b.size());
    out_ += b;
}

void Cbor::text(std::string_view t) {
    head(3, t.size());
    out_ += t;
}

void Pickle::little_endian(std::uint64_t v, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
        body_ += static_cast<char>(v >> (8 * i));
    }
}

void Pickle::memoize() {
    body_ += '\x94';
    ++memo_;
}

void Pickle::integer(std::int64_t v) {
    if (v >= 0) {
        unsigned_integer(static_cast<std::uint64_t>(v));
    } else if (v >= INT32_MIN) {
        body_ += '\x4a';
        little_endian(static_cast<std::uint64_t>(v), 4);
    } else {
        std::string magnitude;
        for (std::size_t i = 0; i < 8; ++i) {
            magnitude += static_cast<char>(static_cast<std::uint64_t>(v) >> (8 * i));
        }
        long_integer(std::move(magnitude), true);
    }
}

void Pickle::unsigned_integer(std::uint64_t v) {
    if (v <= 0xff) {
        body_ += '\x4b';
        little_endian(v, 1);
    } else if (v <= 0xffff) {
        body_ += '\x4d';
        little_endian(v, 2);
    } else if (v <= INT32_MAX) {
        body_ += '\x4a';
        little_endian(v, 4);
    } else {
        std::string magnitude;
        for (std::size_t i = 0; i < 8; ++i) {
            magnitude += static_cast<char>(v >> (8 * i));
        }
        long_integer(std::move(magnitude), false);
    }
}

void Pickle::big_integer(std::string_view big_endian) {
    const std::size_t zeros = std::min(big_endian.find_first_not_of('\0'), big_endian.size());
    big_endian.remove_prefix(zeros);
    if (big_endian.size() <= 8) {
        std::uint64_t v = 0;
        for (char c : big_endian) {
            v = v << 8U | static_cast<unsigned char>(c);
        }
        unsigned_integer(v);
        return;
    }
    long_integer(std::string(big_endian.rbegin(), big_endian.rend()), false);
}

// Two's complement, little-endian, shortest form that keeps the sign.
void Pickle::long_integer(std::string digits, bool negative) {
    const char fill = negative ? '\xff' : '\0';
    const auto has_sign = [](char c) {
        return (static_cast<unsigned char>(c) & 0x80U) != 0;
    };
    if (has_sign(digits.back()) != negative) {
        digits += fill;
    }
    while (digits.size() > 1 && digits.back() == fill &&
           has_sign(digits[digits.size() - 2]) == negative) {
        digits.pop_back();
    }
    body_ += '\x8a';
    body_ += static_cast<char>(digits.size());
    body_ += digits;
}

void Pickle::bytes(std::string_view b) {
    if (b.size() < 256) {
        body_ += '\x43';
        little_endian(b.size(), 1);
    } else {
        body_ += '\x42';
        little_endian(b.size(), 4);
    }
    body_ += b;
    memoize();
}

void Pickle::text(std::string_view t, bool shared) {
    if (shared) {
        for (const Shared& s : shared_) {
            if (s.text == t) {
                body_ += '\x68';
                little_endian(s.index, 1);
                return;
            }
        }
        shared_.push_back({std::string(t), memo_});
    }
    if (t.size() < 256) {
        body_ += '\x8c';
        little_endian(t.size(), 1);
    } else {
        body_ += '\x58';
        little_endian(t.size(), 4);
    }
    body_ += t;
    memoize();
}

void Pickle::open_tuple(std::size_t items) {
    if (items > 3) {
        body_ += '\x28';
    }
}

void Pickle::close_tuple(std::size_t items) {
    static constexpr char kShort[] = {'\x29', '\x85', '\x86', '\x87'};
    body_ += items > 3 ? '\x74' : kShort[items];
    if (items > 0) {
        memoize();
    }
}

std::optional<std::string> Pickle::finish() {
    body_ += '\x2e';
    if (body_.size() > 64 * 1024) {
        return std::nullopt;
    }
    std::string out{"\x80\x05\x95"};
    for (std::size_t i = 0; i < 8; ++i) {
        out += static_cast<char>(static_cast<std::uint64_t>(body_.size()) >> (8 * i));
    }
    return out += body_;
}

}  // namespace sluice::vllm
