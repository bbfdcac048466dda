#include "tests/sim/support/flags.hpp"

namespace sluice::sim {

Error bad_flag(std::string_view flag, std::string_view why) {
    return Error{Code::Invalid, std::string(flag) + ": " + std::string(why)};
}

void Flags::text(std::string_view name, std::string& out) {
    custom(name, [this, &out](std::string_view flag) -> Status {
        auto v = value(flag);
        if (!v) {
            return std::move(v).error();
        }
        out = *v;
        return {};
    });
}

void Flags::toggle(std::string_view name, bool& out, bool meaning) {
    toggles_[std::string(name)] = {&out, meaning};
}

Status Flags::read() {
    while (at_ < args_.size()) {
        std::string_view flag = args_[at_++];
        inline_value_.reset();
        if (const std::size_t eq = flag.find('='); eq != std::string_view::npos) {
            inline_value_ = flag.substr(eq + 1);
            flag = flag.substr(0, eq);
        }
        if (const auto t = toggles_.find(flag); t != toggles_.end()) {
            *t->second.target = t->second.meaning;
            continue;
        }
        const auto v = values_.find(flag);
        if (v == values_.end()) {
            return bad_flag(flag, "unknown flag");
        }
        if (auto s = v->second(flag); !s) {
            return s;
        }
    }
    return {};
}

Result<std::string_view> Flags::value(std::string_view flag) {
    if (inline_value_) {
        return *inline_value_;
    }
    if (at_ >= args_.size()) {
        return bad_flag(flag, "needs a value");
    }
    return args_[at_++];
}

std::vector<std::string_view> Flags::values() {
    if (inline_value_) {
        return {*inline_value_};
    }
    std::vector<std::string_view> out;
    while (at_ < args_.size() && args_[at_].substr(0, 2) != "--") {
        out.push_back(args_[at_++]);
    }
    return out;
}

Result<std::uint64_t> Flags::number_of(std::string_view flag, std::uint64_t least,
                                       std::uint64_t most) {
    auto v = value(flag);
    if (!v) {
        return std::move(v).error();
    }
    std::uint64_t n = 0;
    const auto r = std::from_chars(v->data(), v->data() + v->size(), n);
    if (v->empty() || r.ec != std::errc() || r.ptr != v->data() + v->size() || n < least ||
        n > most) {
        return bad_flag(flag, "a number from " + std::to_string(least) + " to " +
                                  std::to_string(most) + " expected, got '" + std::string(*v) +
                                  "'");
    }
    return n;
}

}  // namespace sluice::sim
