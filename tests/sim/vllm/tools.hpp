// Tool calls in the Hermes form: making them up, and finding them in text.
//
//   <tool_call>\n{"name": "f", "arguments": {"c": "a"}}\n</tool_call>
//
// Threads: none of its own; values.
// Source:  vLLM 0.32 hermes parser; captures chat-tools-*.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/sim/support/json.hpp"
#include "tests/sim/vllm/api_error.hpp"

namespace sluice::sim::vllm {

enum class ToolChoice { None, Auto, Required, Named };

struct ToolRequest {
    ToolChoice choice = ToolChoice::None;
    const json::Value* function = nullptr;  // Named, Required: the one to call
};

// What a chat request wants of its tools; `offers_tools` is the server's own setting.
std::variant<ToolRequest, ApiError> read_tools(const json::Value& body, bool offers_tools);

// A call of this function with arguments that satisfy the simple parts of its schema.
std::string make_call(const json::Value& function);

struct ToolCall {
    std::string name;
    std::string arguments;  // JSON text as written
};

// Text, the start of a call, or more of its arguments.
struct ToolDelta {
    enum class Kind { Text, Start, Arguments };
    Kind kind = Kind::Text;
    std::size_t index = 0;  // of the call
    std::string text;       // text, name or arguments
};

// Follows an answer as it grows.
class ToolStream {
public:
    std::vector<ToolDelta> push(std::string_view text);
    std::size_t calls() const noexcept { return calls_; }

private:
    enum class At { Text, Name, Arguments, Tail };
    bool advance(std::vector<ToolDelta>& out);
    bool find_name(std::vector<ToolDelta>& out);
    bool take_arguments(std::vector<ToolDelta>& out);

    std::string buffer_;
    At at_ = At::Text;
    std::size_t calls_ = 0;
    int depth_ = 0;
    bool in_string_ = false;
    bool is_escaped_ = false;
};

// Calls of a finished answer, and the text before the first; no calls unless one is complete.
struct ToolAnswer {
    std::string text;
    std::vector<ToolCall> calls;
};
ToolAnswer parse_tools(std::string_view answer);

}  // namespace sluice::sim::vllm
