// Base class of an engine adapter: the C table from the members the derived class has.
//
//   class Foo : public sluice::Engine<Foo> {
//       struct Attachment { ... };                                  // what one endpoint needs
//       Foo(sluice::Host host, std::string_view config);
//       const sluice_engine_info& info() const;
//       std::unique_ptr<Attachment> attach(const sluice_endpoint&, std::uint32_t watch);
//       void detach(std::unique_ptr<Attachment>);
//   };
//
// Optional members, each a NULL slot when absent: plan, build_leg, on_reply, hash_blocks,
// on_served, activate, deactivate. on_reply may take the sluice_error as well: for FAIL's text.
//
// Threads: attach, detach: event; plan, build_leg, on_reply, hash_blocks, on_served: request;
//          info: any.
// Errors:  a Failure thrown inside becomes the call's status and text.
#pragma once
#include "sluice/sdk/cxx/selector.hpp"
#include "sluice/sdk/engine.h"

namespace sluice {

template <class Derived>
class Engine : public Instance<Derived> {
    using Base = Instance<Derived>;

public:
    static const void* table(const char* id) noexcept {
        static constexpr sluice_engine kTable = make_table();
        return std::strcmp(id, SLUICE_EXT_ENGINE) == 0 ? &kTable : nullptr;
    }

protected:
    // The derived class's attachment behind a leg's `at` or `peer_at`; NULL stays NULL.
    template <class D = Derived>
    static typename D::Attachment* attached(sluice_attachment* at) noexcept {
        return reinterpret_cast<typename D::Attachment*>(at);
    }

private:
    static constexpr sluice_engine make_table() noexcept {
        sluice_engine t{};
        t.size = sizeof t;
        t.info = [](sluice_instance* i) noexcept -> const sluice_engine_info* {
            return &Base::of(i).info();
        };
        t.attach = &attach_thunk;
        t.detach = &detach_thunk;
        if constexpr (requires(Derived& d, const sluice_request& r, sluice_plan& p) {
                          d.plan(r, p);
                      }) {
            t.plan = [](sluice_instance* i, const sluice_request* r, sluice_plan* p,
                        sluice_error* e) noexcept {
                return guard(e, [&]() -> sluice_status { return Base::of(i).plan(*r, *p); });
            };
        }
        if constexpr (requires(Derived& d, const sluice_leg& l, sluice_leg_out& o) {
                          d.build_leg(l, o);
                      }) {
            t.build_leg = [](sluice_instance* i, const sluice_leg* l, sluice_leg_out* o,
                             sluice_error* e) noexcept {
                return guard(e, [&]() -> sluice_status { return Base::of(i).build_leg(*l, *o); });
            };
        }
        // With the error as well: SLUICE_NEXT_FAIL is a success that has a text.
        if constexpr (requires(Derived& d, const sluice_leg& l, const sluice_reply& r,
                               sluice_reply_out& o, sluice_error* e) { d.on_reply(l, r, o, e); }) {
            t.on_reply = [](sluice_instance* i, const sluice_leg* l, const sluice_reply* r,
                            sluice_reply_out* o, sluice_error* e) noexcept {
                return guard(
                    e, [&]() -> sluice_status { return Base::of(i).on_reply(*l, *r, *o, e); });
            };
        }
        if constexpr (requires(Derived& d, const sluice_leg& l, const sluice_reply& r,
                               sluice_reply_out& o) { d.on_reply(l, r, o); }) {
            t.on_reply = [](sluice_instance* i, const sluice_leg* l, const sluice_reply* r,
                            sluice_reply_out* o, sluice_error* e) noexcept {
                return guard(e,
                             [&]() -> sluice_status { return Base::of(i).on_reply(*l, *r, *o); });
            };
        }
        if constexpr (requires(Derived& d, const sluice_hash_input& in, std::span<std::uint64_t> o,
                               std::uint32_t& n) { d.hash_blocks(in, o, n); }) {
            t.hash_blocks = [](sluice_instance* i, const sluice_hash_input* in, std::uint64_t* out,
                               std::uint32_t cap, std::uint32_t* num, sluice_error* e) noexcept {
                return guard(e, [&]() -> sluice_status {
                    return Base::of(i).hash_blocks(*in, std::span{out, cap}, *num);
                });
            };
        }
        if constexpr (requires(Derived& d, typename Derived::Attachment& a,
                               const sluice_served& s) { d.on_served(a, s); }) {
            t.on_served = [](sluice_instance* i, sluice_attachment* at,
                             const sluice_served* s) noexcept {
                (void)guard(nullptr, [&] {
                    Base::of(i).on_served(*attached(at), *s);
                    return SLUICE_OK;
                });
            };
        }
        return t;
    }
    static sluice_status attach_thunk(sluice_instance* i, const sluice_endpoint* ep,
                                      std::uint32_t watch, sluice_attachment** out,
                                      sluice_error* err) noexcept {
        return guard(err, [&] {
            *out = reinterpret_cast<sluice_attachment*>(Base::of(i).attach(*ep, watch).release());
            return SLUICE_OK;
        });
    }
    static void detach_thunk(sluice_instance* i, sluice_attachment* at) noexcept {
        (void)guard(nullptr, [&] {
            Base::of(i).detach(std::unique_ptr<typename Derived::Attachment>(attached(at)));
            return SLUICE_OK;
        });
    }
};

}  // namespace sluice
