// The entry symbol of a plugin file, from a constant list of what the file holds.
//
//   constexpr std::array kPlugins{sluice::PluginSpec{&kDesc, &Foo::make, &check_foo}};
//   SLUICE_EXPORT const sluice_plugin_entry* sluice_plugin_entry_v1(void) {
//       return sluice::plugin_entry<kPlugins>();
//   }
//
// Threads: control.
// Errors:  an id the file does not hold is SLUICE_E_NOT_FOUND.
#pragma once
#include "sluice/sdk/cxx/core.hpp"
#include "sluice/sdk/plugin.h"

namespace sluice {

// Where a rule check says what it found. Any refusal refuses the rule.
class Verdict {
public:
    explicit Verdict(sluice_verdict_out* out) noexcept : out_(out) {}
    void warn(std::string_view code, std::string_view field, std::string_view what) {
        say(SLUICE_OK, code, field, what);
    }
    void refuse(std::string_view code, std::string_view field, std::string_view what) {
        say(SLUICE_E_CONFIG, code, field, what);
        refused_ = true;
    }
    void immutable(std::string_view code, std::string_view field, std::string_view what) {
        say(SLUICE_E_IMMUTABLE, code, field, what);
        refused_ = true;
    }
    // The value in force where the operator gave none.
    void effective(std::string_view field, std::string_view json) {
        if (out_->effective != nullptr) {
            out_->effective(out_->ctx, borrow(field), borrow(json));
        }
    }
    bool refused() const noexcept { return refused_; }

private:
    void say(sluice_status kind, std::string_view code, std::string_view field,
             std::string_view what) {
        out_->say(out_->ctx, kind, borrow(code), borrow(field), borrow(what));
    }
    sluice_verdict_out* out_;
    bool refused_ = false;
};

struct PluginSpec {
    const sluice_plugin_desc* desc;
    sluice_status (*make)(const sluice_host*, sluice_str config, sluice_instance**,
                          sluice_error*) noexcept;
    void (*check)(const sluice_proposal&, Verdict&) = nullptr;
};

template <const auto& kSpecs>
const sluice_plugin_entry* plugin_entry() noexcept {
    struct Thunks {
        static const PluginSpec* find(const char* id) noexcept {
            for (const PluginSpec& spec : kSpecs) {
                if (std::strcmp(spec.desc->id, id) == 0) {
                    return &spec;
                }
            }
            return nullptr;
        }
        static sluice_status init(sluice_error*) noexcept { return SLUICE_OK; }
        static void deinit() noexcept {}
        static std::uint32_t count() noexcept {
            return static_cast<std::uint32_t>(std::size(kSpecs));
        }
        static const sluice_plugin_desc* describe(std::uint32_t i) noexcept {
            return i < std::size(kSpecs) ? kSpecs[i].desc : nullptr;
        }
        static sluice_status check(const char* id, const sluice_proposal* in,
                                   sluice_verdict_out* out, sluice_error* err) noexcept {
            return guard(err, [&] {
                const PluginSpec* spec = find(id);
                if (spec == nullptr) {
                    throw Failure(SLUICE_E_NOT_FOUND, "no such plugin id");
                }
                if (spec->check != nullptr) {
                    Verdict verdict{out};
                    spec->check(*in, verdict);
                }
                return SLUICE_OK;
            });
        }
        static sluice_status create(const sluice_host* host, const char* id, sluice_str config,
                                    sluice_instance** out, sluice_error* err) noexcept {
            const PluginSpec* spec = find(id);
            if (spec == nullptr) {
                return report(err, SLUICE_E_NOT_FOUND, "no such plugin id");
            }
            return spec->make(host, config, out, err);
        }
    };
    static constexpr sluice_plugin_entry kEntry{sizeof(sluice_plugin_entry),
                                                0,
                                                SLUICE_ABI_MAJOR,
                                                SLUICE_TARGET_MINOR,
                                                "1.0.0",
                                                &Thunks::init,
                                                &Thunks::deinit,
                                                &Thunks::count,
                                                &Thunks::describe,
                                                &Thunks::check,
                                                &Thunks::create};
    return &kEntry;
}

}  // namespace sluice
