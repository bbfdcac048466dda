// What the configuration says about the interface and may say anew at a reload.
//
// Threads: any; set() control.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/log.hpp"
#include "core/base/snapshot.hpp"

namespace sluice::admin {

// Who may read /metrics.
enum class MetricsAccess : std::uint8_t {
    Open,   // everyone
    Token,  // who has a token
    Off,    // nobody, and the switch of the interface cannot turn it on
};

struct KnobValues {
    MetricsAccess metrics = MetricsAccess::Open;
    std::vector<std::string> names;         // host names under which the interface may be asked
    std::vector<std::string> cors_origins;  // canonical
    log::Level log_level = log::Level::Info;
};

class Knobs {
public:
    void set(KnobValues values) {
        values_.set(std::make_shared<const KnobValues>(std::move(values)));
    }

    MetricsAccess metrics() const { return values_.get()->metrics; }
    std::vector<std::string> cors_origins() const { return values_.get()->cors_origins; }
    log::Level log_level() const { return values_.get()->log_level; }
    // Of a Host field. An absent one, an address and localhost are always ours: no other page has
    // such an origin.
    bool is_our_name(std::string_view host) const;

private:
    Snapshot<KnobValues> values_{std::make_shared<const KnobValues>()};
};

}  // namespace sluice::admin
