// What an operator hears about a change: why it was refused, or what to look at.
//
// Threads: any (values).
#pragma once
#include <string>

namespace sluice::rules {

struct Refusal {
    int status = 400;     // HTTP
    std::string code;     // stable snake_case, e.g. "kv_zmq_port_unused"
    std::string field;    // as the operator spells it; may be empty
    std::string message;  // for people
    std::string allowed;  // may be empty
};

struct Warning {
    std::string code, field, message;
};

}  // namespace sluice::rules
