// Which of the names a request may say are LoRA adapters.
//
// Threads: any.
#pragma once
#include <string>
#include <string_view>

#include "core/fleet/pool.hpp"

namespace sluice::route {

// The LoRA adapter a served model name stands for on any endpoint of the pool; empty = base model.
// `parent` gets the base model's name then.
std::string_view lora_of(const fleet::Pool& pool, std::string_view served_model,
                         std::string& parent);

}  // namespace sluice::route
