#include "plugins/vllm/msgpack.hpp"

#include <array>
#include <bit>

namespace sluice::vllm::msgpack {

Item Reader::bad() noexcept {
    failed_ = true;
    return {};
}

std::uint64_t Reader::big_endian(std::size_t bytes) noexcept {
    if (failed_ || data_.size() - at_ < bytes) {
        failed_ = true;
        return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
        value = value << 8U | data_[at_ + i];
    }
    at_ += bytes;
    return value;
}

Item Reader::blob(Kind kind, std::uint64_t size) noexcept {
    if (failed_ || data_.size() - at_ < size) {
        return bad();
    }
    Item item;
    item.kind = kind;
    item.bytes = data_.subspan(at_, static_cast<std::size_t>(size));
    at_ += item.bytes.size();
    return item;
}

Item Reader::container(Kind kind, std::uint64_t count) noexcept {
    const std::uint64_t elements = kind == Kind::Map ? count * 2 : count;
    if (failed_ || data_.size() - at_ < elements) {
        return bad();
    }
    Item item;
    item.kind = kind;
    item.count = static_cast<std::size_t>(count);
    return item;
}

Item Reader::next() noexcept {
    const auto tag = static_cast<std::uint8_t>(big_endian(1));
    if (failed_) {
        return {};
    }
    const auto integer = [&](std::uint64_t bits, bool negative) {
        Item item;
        item.kind = failed_ ? Kind::Bad : Kind::Integer;
        item.bits = bits;
        item.is_negative = negative;
        return item;
    };
    const auto simple = [](Kind kind, std::uint64_t bits) {
        Item item;
        item.kind = kind;
        item.bits = bits;
        return item;
    };
    const auto real = [&](double value) {
        Item item;
        item.kind = failed_ ? Kind::Bad : Kind::Float;
        item.real = value;
        return item;
    };
    // Sign-extends the low 8 << size_code bits.
    const auto signed_integer = [&](unsigned size_code) {
        const unsigned bytes = 1U << size_code;
        const unsigned shift = 64U - 8U * bytes;
        const std::uint64_t raw = big_endian(bytes);
        const auto value = static_cast<std::int64_t>(raw << shift) >> shift;
        return integer(static_cast<std::uint64_t>(value), value < 0);
    };

    if (tag <= 0x7f) {
        return integer(tag, false);
    }
    if (tag <= 0x8f) {
        return container(Kind::Map, tag & 0x0fU);
    }
    if (tag <= 0x9f) {
        return container(Kind::Array, tag & 0x0fU);
    }
    if (tag <= 0xbf) {
        return blob(Kind::Text, tag & 0x1fU);
    }
    if (tag >= 0xe0) {
        return integer(
            static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int8_t>(tag))),
            true);
    }
    switch (tag) {
        case 0xc0:
            return simple(Kind::Nil, 0);
        case 0xc2:
        case 0xc3:
            return simple(Kind::Bool, tag & 1U);
        case 0xc4:
        case 0xc5:
        case 0xc6:
            return blob(Kind::Bytes, big_endian(std::size_t{1} << (tag - 0xc4U)));
        case 0xc7:
        case 0xc8:
        case 0xc9: {
            const std::uint64_t size = big_endian(std::size_t{1} << (tag - 0xc7U));
            return blob(Kind::Extension, size + 1);  // its type byte counts as content here
        }
        case 0xca:
            return real(std::bit_cast<float>(static_cast<std::uint32_t>(big_endian(4))));
        case 0xcb:
            return real(std::bit_cast<double>(big_endian(8)));
        case 0xcc:
        case 0xcd:
        case 0xce:
        case 0xcf:
            return integer(big_endian(std::size_t{1} << (tag - 0xccU)), false);
        case 0xd0:
        case 0xd1:
        case 0xd2:
        case 0xd3:
            return signed_integer(tag - 0xd0U);
        case 0xd4:
        case 0xd5:
        case 0xd6:
        case 0xd7:
        case 0xd8:
            return blob(Kind::Extension, (std::uint64_t{1} << (tag - 0xd4U)) + 1);
        case 0xd9:
        case 0xda:
        case 0xdb:
            return blob(Kind::Text, big_endian(std::size_t{1} << (tag - 0xd9U)));
        case 0xdc:
        case 0xdd:
            return container(Kind::Array, big_endian(tag == 0xdc ? 2 : 4));
        case 0xde:
        case 0xdf:
            return container(Kind::Map, big_endian(tag == 0xde ? 2 : 4));
        default:
            return bad();  // 0xc1 is reserved
    }
}

void Reader::skip_values(std::uint64_t count) noexcept {
    std::array<std::uint64_t, kMaxDepth> left{};
    std::size_t depth = 0;
    left[0] = count;
    while (!failed_) {
        if (left[depth] == 0) {
            if (depth == 0) {
                return;
            }
            --depth;
            continue;
        }
        --left[depth];
        const Item item = next();
        if (item.kind == Kind::Array || item.kind == Kind::Map) {
            if (depth + 1 == kMaxDepth) {
                failed_ = true;
                return;
            }
            left[++depth] = item.kind == Kind::Map ? std::uint64_t{item.count} * 2 : item.count;
        }
    }
}

void Reader::skip() noexcept {
    skip_values(1);
}

void Reader::skip_members(const Item& header) noexcept {
    if (header.kind == Kind::Array || header.kind == Kind::Map) {
        skip_values(header.kind == Kind::Map ? std::uint64_t{header.count} * 2 : header.count);
    }
}

}  // namespace sluice::vllm::msgpack
