#include "core/plugin/descriptor.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace sluice::plugin {
namespace {

constexpr std::uint32_t kMaxPlugins = 64;
constexpr std::size_t kMaxId = 128;
constexpr std::size_t kMaxText = 512;
constexpr std::size_t kMaxSchema = 64U << 10U;
constexpr std::size_t kMaxList = 16;

// Empty when the text is missing or longer than it may be.
std::optional<std::string> text(const char* from, std::size_t max) {
    if (from == nullptr) {
        return std::nullopt;
    }
    const std::size_t n = ::strnlen(from, max + 1);
    if (n > max) {
        return std::nullopt;
    }
    return std::string(from, n);
}

bool is_word(std::string_view id) noexcept {
    return !id.empty() && std::all_of(id.begin(), id.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '-' || c == '_';
    });
}

Status read_list(const char* const* from, const char* what, std::vector<std::string>& out) {
    for (std::size_t i = 0; from != nullptr && from[i] != nullptr; ++i) {
        auto id = text(from[i], kMaxId);
        if (!id || i == kMaxList) {
            return Error{Code::Invalid, std::string(what) + " is too long"};
        }
        out.push_back(std::move(*id));
    }
    return {};
}

Result<Descriptor> read_one(const sluice_plugin_desc& from) {
    if (!SLUICE_HAS(sluice_plugin_desc, &from, needs)) {
        return Error{Code::Invalid, "a descriptor is shorter than ABI 1.0"};
    }
    Descriptor out;
    const auto id = text(from.id, kMaxId);
    if (!id || !is_word(*id)) {
        return Error{Code::Invalid, "a descriptor has no usable id"};
    }
    out.id = *id;
    struct Row {
        const char* from;
        std::string* to;
        const char* what;
        bool may_lack;
    };
    for (const Row& row :
         {Row{from.alias, &out.alias, "alias", true}, Row{from.name, &out.name, "name", false},
          Row{from.summary, &out.summary, "summary", false},
          Row{from.version, &out.version, "version", false},
          Row{from.license, &out.license, "license", false},
          Row{from.vendor, &out.vendor, "vendor", true}, Row{from.url, &out.url, "url", true}}) {
        if (row.from == nullptr && row.may_lack) {
            continue;
        }
        auto value = text(row.from, kMaxText);
        if (!value) {
            return Error{Code::Invalid, out.id + ": no usable " + row.what};
        }
        *row.to = std::move(*value);
    }
    if (!out.alias.empty() && !is_word(out.alias)) {
        return Error{Code::Invalid, out.id + ": the alias holds other than letters, digits, . _ -"};
    }
    auto config = text(from.config_schema, kMaxSchema);
    if (!config) {
        return Error{Code::Invalid, out.id + ": no usable config_schema"};
    }
    out.config_schema = std::move(*config);
    if (from.endpoint_schema != nullptr) {
        auto endpoint = text(from.endpoint_schema, kMaxSchema);
        if (!endpoint) {
            return Error{Code::Invalid, out.id + ": endpoint_schema is too long"};
        }
        out.endpoint_schema = std::move(*endpoint);
    }
    if (auto read = read_list(from.provides, "provides", out.provides); !read) {
        return std::move(read).error().at(out.id);
    }
    if (auto read = read_list(from.needs, "needs", out.needs); !read) {
        return std::move(read).error().at(out.id);
    }
    out.is_draft = (from.flags & SLUICE_DESC_DRAFT) != 0;
    out.owns_threads = (from.flags & SLUICE_DESC_OWN_THREADS) != 0;
    return out;
}

}  // namespace

bool Descriptor::provides_extension(std::string_view extension_id) const noexcept {
    return std::find(provides.begin(), provides.end(), extension_id) != provides.end();
}

Result<std::vector<Descriptor>> read_descriptors(const sluice_plugin_entry& entry) {
    const std::uint32_t count = entry.count();
    if (count == 0 || count > kMaxPlugins) {
        return Error{Code::Invalid, "describes " + std::to_string(count) +
                                        " plugins, allowed are 1.." + std::to_string(kMaxPlugins)};
    }
    std::vector<Descriptor> out;
    for (std::uint32_t i = 0; i < count; ++i) {
        const sluice_plugin_desc* desc = entry.describe(i);
        if (desc == nullptr) {
            return Error{Code::Invalid, "describe(" + std::to_string(i) + ") gives nothing"};
        }
        auto one = read_one(*desc);
        if (!one) {
            return std::move(one).error();
        }
        out.push_back(std::move(one).value());
    }
    return out;
}

}  // namespace sluice::plugin
