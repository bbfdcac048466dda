#include "tests/sim/vllm/hash.hpp"

#include <openssl/evp.h>

#include <algorithm>

#include "core/base/bytes.hpp"

namespace sluice::sim::vllm {
namespace {

using Bytes = std::vector<std::uint8_t>;

void append(Bytes& out, std::string_view s) {
    out.insert(out.end(), s.begin(), s.end());
}

Digest sha256(std::span<const std::uint8_t> in) {
    Digest out{};
    EVP_Digest(in.data(), in.size(), out.data(), nullptr, EVP_sha256(), nullptr);
    return out;
}

// Canonical CBOR: shortest head of a major type (0 unsigned, 2 bytes, 3 text, 4 array).
class Cbor {
public:
    void head(unsigned major, std::uint64_t n) {
        const auto first = [&](unsigned low) {
            out.push_back(static_cast<std::uint8_t>(major << 5U | low));
        };
        unsigned width = 0;
        if (n < 24) {
            first(static_cast<unsigned>(n));
        } else if (n < 0x100) {
            first(24);
            width = 1;
        } else if (n < 0x10000) {
            first(25);
            width = 2;
        } else if (n < 0x100000000ULL) {
            first(26);
            width = 4;
        } else {
            first(27);
            width = 8;
        }
        for (unsigned i = width; i-- > 0;) {
            out.push_back(static_cast<std::uint8_t>(n >> (8U * i)));
        }
    }
    void text(std::string_view s) {
        head(3, s.size());
        append(out, s);
    }
    void key(const ExtraKey& k) {
        if (k.is_tuple) {
            head(4, k.parts.size());
        }
        std::for_each(k.parts.begin(), k.parts.end(), [this](const auto& p) { text(p); });
    }
    void triple(const Digest& parent, std::span<const TokenId> tokens,
                std::span<const ExtraKey> extra) {
        head(4, 3);
        head(2, parent.size());
        out.insert(out.end(), parent.begin(), parent.end());
        head(4, tokens.size());
        for (const TokenId t : tokens) {
            head(0, t);
        }
        if (extra.empty()) {
            out.push_back(0xF6);
            return;
        }
        head(4, extra.size());
        for (const ExtraKey& k : extra) {
            key(k);
        }
    }
    Bytes out;
};

// Pickle protocol 5 as CPython's C pickler writes it for these values.
class Pickle {
public:
    void text(std::string_view s) {
        if (s.size() < 256) {
            out.push_back(0x8C);
            out.push_back(static_cast<std::uint8_t>(s.size()));
        } else {
            out.push_back('X');
            little(s.size(), 4);
        }
        append(out, s);
        memo();
    }
    void bytes(const Digest& d) {
        out.push_back('C');
        out.push_back(static_cast<std::uint8_t>(d.size()));
        out.insert(out.end(), d.begin(), d.end());
        memo();
    }
    void integer(TokenId n) {
        if (n < 0x100) {
            out.push_back('K');
            little(n, 1);
        } else if (n < 0x10000) {
            out.push_back('M');
            little(n, 2);
        } else if (n < 0x80000000U) {
            out.push_back('J');
            little(n, 4);
        } else {  // needs a fifth byte: the top bit is the sign
            out.push_back(0x8A);
            out.push_back(5);
            little(n, 5);
        }
    }
    // A tuple of n items written by `item(i)`.
    template <class Item>
    void tuple(std::size_t n, Item item) {
        if (n == 0) {
            out.push_back(')');
            return;
        }
        if (n > 3) {
            out.push_back('(');
        }
        for (std::size_t i = 0; i < n; ++i) {
            item(i);
        }
        out.push_back(n > 3 ? 't' : static_cast<std::uint8_t>(0x84 + n));
        memo();
    }
    void key(const ExtraKey& k) {
        if (k.is_tuple) {
            tuple(k.parts.size(), [&](std::size_t i) { text(k.parts[i]); });
        } else {
            text(k.parts.front());
        }
    }
    void triple(const Digest& parent, std::span<const TokenId> tokens,
                std::span<const ExtraKey> extra) {
        tuple(3, [&](std::size_t i) {
            if (i == 0) {
                bytes(parent);
            } else if (i == 1) {
                tuple(tokens.size(), [&](std::size_t t) { integer(tokens[t]); });
            } else if (extra.empty()) {
                out.push_back('N');
            } else {
                tuple(extra.size(), [&](std::size_t e) { key(extra[e]); });
            }
        });
    }
    // The whole pickle: protocol, one frame if it is long enough to be framed, body, stop. Bodies
    // over 64 KiB would be framed apart; a block does not reach that.
    Bytes whole() const {
        Bytes all{0x80, 5};
        const std::size_t framed = out.size() + 1;
        if (framed >= 4) {
            all.push_back(0x95);
            for (unsigned i = 0; i < 8; ++i) {
                all.push_back(static_cast<std::uint8_t>(framed >> (8U * i)));
            }
        }
        all.insert(all.end(), out.begin(), out.end());
        all.push_back('.');
        return all;
    }

private:
    void memo() { out.push_back(0x94); }
    void little(std::uint64_t n, unsigned width) {
        for (unsigned i = 0; i < width; ++i) {
            out.push_back(static_cast<std::uint8_t>(n >> (8U * i)));
        }
    }
    Bytes out;
};

}  // namespace

std::optional<HashAlgorithm> algorithm_from(std::string_view name) noexcept {
    if (name == "sha256") {
        return HashAlgorithm::Sha256;
    }
    if (name == "sha256_cbor") {
        return HashAlgorithm::Sha256Cbor;
    }
    return std::nullopt;
}

Digest none_hash(HashAlgorithm algorithm, std::string_view seed_text) {
    if (algorithm == HashAlgorithm::Sha256Cbor) {
        Cbor c;
        c.text(seed_text);
        return sha256(c.out);
    }
    Pickle p;
    p.text(seed_text);
    return sha256(p.whole());
}

Digest hash_block(HashAlgorithm algorithm, const Digest& parent, std::span<const TokenId> tokens,
                  std::span<const ExtraKey> extra) {
    if (algorithm == HashAlgorithm::Sha256Cbor) {
        Cbor c;
        c.triple(parent, tokens, extra);
        return sha256(c.out);
    }
    Pickle p;
    p.triple(parent, tokens, extra);
    return sha256(p.whole());
}

std::uint64_t low_64(const Digest& digest) noexcept {
    return load_be64(std::span(digest).last<8>());
}

}  // namespace sluice::sim::vllm
