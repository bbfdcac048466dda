// Base class of a selector: the C table from the members the derived class has.
//
//   class Least : public sluice::Selector<Least> {
//       Least(sluice::Host host, std::string_view config);
//       void score(const sluice_choice&, sluice::Rows<sluice_candidate>, std::span<float> out);
//   };
//
// Optional members, each a NULL slot when absent: filter, score, pick, observe, explain,
// prepare/release with a nested type View, activate, deactivate.
//
// Threads: score, pick, filter: request; observe: any; prepare, release: control.
// Errors:  a Failure thrown inside becomes the call's status.
#pragma once
#include <memory>

#include "sluice/sdk/cxx/host.hpp"
#include "sluice/sdk/selector.h"

namespace sluice {

// What every kind of instance shares: creation, the lifecycle slots, the way back to the object.
template <class Derived>
class Instance {
public:
    Instance() noexcept = default;
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;

    static sluice_status make(const sluice_host* host, sluice_str config, sluice_instance** out,
                              sluice_error* err) noexcept {
        return guard(err, [&] {
            auto self = std::make_unique<Derived>(Host{host}, view(config));
            self->instance_.impl = self.get();
            *out = &self.release()->instance_;
            return SLUICE_OK;
        });
    }

protected:
    ~Instance() = default;
    static Derived& of(sluice_instance* i) noexcept { return *static_cast<Derived*>(i->impl); }

private:
    static sluice_status activate_thunk(sluice_instance* i, sluice_error* err) noexcept {
        return guard(err, [&] {
            if constexpr (requires(Derived& d) { d.activate(); }) {
                of(i).activate();
            }
            return SLUICE_OK;
        });
    }
    static void deactivate_thunk(sluice_instance* i) noexcept {
        (void)guard(nullptr, [&] {
            if constexpr (requires(Derived& d) { d.deactivate(); }) {
                of(i).deactivate();
            }
            return SLUICE_OK;
        });
    }
    static void destroy_thunk(sluice_instance* i) noexcept { delete &of(i); }
    static const void* query_thunk(sluice_instance*, const char* id) noexcept {
        return Derived::table(id);
    }

    sluice_instance instance_{
        sizeof(sluice_instance), 0,           nullptr, &activate_thunk, &deactivate_thunk,
        &destroy_thunk,          &query_thunk};
};

template <class Derived>
class Selector : public Instance<Derived> {
    using Base = Instance<Derived>;
    using Choice = const sluice_choice&;
    using Candidates = Rows<sluice_candidate>;

public:
    static const void* table(const char* id) noexcept {
        static constexpr sluice_selector kTable = make_table();
        return std::strcmp(id, SLUICE_EXT_SELECTOR) == 0 ? &kTable : nullptr;
    }

private:
    static constexpr sluice_selector make_table() noexcept {
        sluice_selector t{};
        t.size = sizeof t;
        if constexpr (requires(Derived& d, Candidates c) { d.prepare(c); }) {
            t.prepare = &prepare_thunk;
            t.release = &release_thunk;
        }
        if constexpr (requires(Derived& d, Choice c, Candidates r, std::span<std::uint8_t> k) {
                          d.filter(c, r, k);
                      }) {
            t.filter = &filter_thunk;
        }
        if constexpr (requires(Derived& d, Choice c, Candidates r, std::span<float> s) {
                          d.score(c, r, s);
                      }) {
            t.score = &score_thunk;
        }
        if constexpr (requires(Derived& d, Choice c, Candidates r, std::uint32_t* i) {
                          d.pick(c, r, i);
                      }) {
            t.pick = &pick_thunk;
        }
        if constexpr (requires(Derived& d, const sluice_outcome& o) { d.observe(o); }) {
            t.observe = &observe_thunk;
        }
        if constexpr (requires(Derived& d, Choice c, std::uint32_t i) { d.explain(c, i); }) {
            t.explain = &explain_thunk;
        }
        return t;
    }

    static sluice_status prepare_thunk(sluice_instance* i, sluice_array rows, sluice_view** out,
                                       sluice_error* err) noexcept {
        return guard(err, [&] {
            // The view is the derived class's; a std::unique_ptr<View> crosses as an opaque
            // pointer.
            *out = reinterpret_cast<sluice_view*>(Base::of(i).prepare(Candidates{rows}).release());
            return SLUICE_OK;
        });
    }
    static void release_thunk(sluice_instance*, sluice_view* v) noexcept {
        if constexpr (requires { typename Derived::View; }) {
            delete reinterpret_cast<typename Derived::View*>(v);
        }
    }
    static sluice_status filter_thunk(sluice_instance* i, const sluice_choice* c,
                                      std::uint8_t* keep) noexcept {
        return guard(nullptr, [&] {
            Base::of(i).filter(*c, Candidates{c->candidates}, std::span{keep, c->candidates.count});
            return SLUICE_OK;
        });
    }
    static sluice_status score_thunk(sluice_instance* i, const sluice_choice* c,
                                     float* s) noexcept {
        return guard(nullptr, [&] {
            Base::of(i).score(*c, Candidates{c->candidates}, std::span{s, c->candidates.count});
            return SLUICE_OK;
        });
    }
    static sluice_status pick_thunk(sluice_instance* i, const sluice_choice* c,
                                    std::uint32_t* index) noexcept {
        return guard(nullptr,
                     [&] { return Base::of(i).pick(*c, Candidates{c->candidates}, index); });
    }
    static void observe_thunk(sluice_instance* i, const sluice_outcome* o) noexcept {
        (void)guard(nullptr, [&] {
            Base::of(i).observe(*o);
            return SLUICE_OK;
        });
    }
    static sluice_status explain_thunk(sluice_instance* i, const sluice_choice* c,
                                       std::uint32_t index, sluice_sink* out) noexcept {
        return guard(nullptr, [&] {
            const std::string line = Base::of(i).explain(*c, index);
            return out->write(out->ctx, line.data(), line.size());
        });
    }
};

}  // namespace sluice
