#include "tests/sim/vllm/tools.hpp"

#include <algorithm>

namespace sluice::sim::vllm {
namespace {

constexpr std::string_view kOpen = "<tool_call>";
constexpr std::string_view kClose = "</tool_call>";
constexpr std::string_view kArguments = "\"arguments\":";

// How many bytes at the end of `s` may be the beginning of `mark`.
std::size_t held_for(std::string_view s, std::string_view mark) {
    for (std::size_t n = std::min(s.size(), mark.size() - 1); n > 0; --n) {
        if (s.substr(s.size() - n) == mark.substr(0, n)) {
            return n;
        }
    }
    return 0;
}

void write_sample(json::Writer& w, const json::Value* schema, int depth) {
    constexpr int kDeepest = 8;
    const json::Value* choices = schema == nullptr ? nullptr : schema->get("enum");
    if (choices != nullptr && choices->array() != nullptr && !choices->array()->empty()) {
        w.value(choices->array()->front());
        return;
    }
    const std::string_view type = schema == nullptr ? "object" : schema->text_of("type");
    if (type == "string") {
        w.value("text");
    } else if (type == "integer") {
        w.value(std::int64_t{1});
    } else if (type == "number") {
        w.value(1.5);
    } else if (type == "boolean") {
        w.value(true);
    } else if (type == "array") {
        w.open_array().close_array();
    } else if (type == "null") {
        w.null();
    } else {
        w.open_object();
        const json::Value* properties = schema == nullptr ? nullptr : schema->get("properties");
        const json::Value* required = schema == nullptr ? nullptr : schema->get("required");
        const json::Array none;
        for (const json::Value& name :
             required != nullptr && required->array() != nullptr && depth < kDeepest
                 ? *required->array()
                 : none) {
            if (name.text() != nullptr) {
                w.key(*name.text());
                write_sample(w, properties == nullptr ? nullptr : properties->get(*name.text()),
                             depth + 1);
            }
        }
        w.close_object();
    }
}

const json::Value* function_of(const json::Value& tool) {
    return tool.get("function");
}

}  // namespace

std::variant<ToolRequest, ApiError> read_tools(const json::Value& body, bool offers_tools) {
    const json::Value* tools = body.get("tools");
    const json::Array* list = tools == nullptr ? nullptr : tools->array();
    const json::Value* choice = body.get("tool_choice");
    if (list != nullptr && list->empty()) {
        return refuse_param(
            "`tools` must not be an empty array. Either provide at least one tool or omit the "
            "field entirely.",
            "tools");
    }
    if (list == nullptr) {
        if (choice != nullptr && body.text_of("tool_choice") != "none") {
            return refuse_param("When using `tool_choice`, `tools` must be set.", "tool_choice");
        }
        return ToolRequest{};
    }
    const std::string_view word =
        choice == nullptr ? std::string_view("auto") : body.text_of("tool_choice");
    if (word == "none") {
        return ToolRequest{};
    }
    const json::Value* named = choice == nullptr ? nullptr : choice->get("function");
    if (word == "auto") {
        if (!offers_tools) {
            return refuse(
                "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser "
                "to be set");
        }
        return ToolRequest{ToolChoice::Auto, nullptr};
    }
    if (word == "required" || named != nullptr) {
        const std::string_view wanted = named == nullptr ? "" : named->text_of("name");
        const auto it = std::find_if(list->begin(), list->end(), [&](const json::Value& tool) {
            const json::Value* f = function_of(tool);
            return f != nullptr && (named == nullptr || f->text_of("name") == wanted);
        });
        if (it == list->end()) {
            return refuse_param(
                "The tool specified in `tool_choice` does not match any of the specified `tools`",
                "tool_choice");
        }
        if (!offers_tools) {
            const std::string what = named == nullptr
                                         ? "tool_choice=\"required\""
                                         : "tool_choice=function \"" + std::string(wanted) + "\"";
            return refuse(what + " requires --tool-call-parser to be set");
        }
        if (body.get("structured_outputs") != nullptr) {
            return refuse(
                "You can only either use constraints for structured outputs or tools, not both.");
        }
        return ToolRequest{named == nullptr ? ToolChoice::Required : ToolChoice::Named,
                           function_of(*it)};
    }
    return refuse_param("Invalid value for `tool_choice`.", "tool_choice");
}

std::string make_call(const json::Value& function) {
    json::Writer w(json::Style::Spaced);
    w.open_object().field("name", function.text_of("name")).key("arguments");
    write_sample(w, function.get("parameters"), 0);
    w.close_object();
    return std::string(kOpen) + "\n" + w.take() + "\n" + std::string(kClose);
}

std::vector<ToolDelta> ToolStream::push(std::string_view text) {
    buffer_ += text;
    std::vector<ToolDelta> out;
    while (advance(out)) {
    }
    return out;
}

// One move of the state; false when more text is needed.
bool ToolStream::advance(std::vector<ToolDelta>& out) {
    switch (at_) {
        case At::Text: {
            const std::size_t open = buffer_.find(kOpen);
            std::size_t end = open;
            if (open == std::string::npos) {
                end = buffer_.size() - held_for(buffer_, kOpen);
            }
            std::string shown = buffer_.substr(0, end);
            // Space between two calls is no content.
            if (calls_ > 0 && shown.find_first_not_of(" \r\n\t") == std::string::npos) {
                shown.clear();
            }
            if (!shown.empty()) {
                out.push_back({ToolDelta::Kind::Text, 0, std::move(shown)});
            }
            buffer_.erase(0, open == std::string::npos ? end : end + kOpen.size());
            at_ = open == std::string::npos ? At::Text : At::Name;
            return open != std::string::npos;
        }
        case At::Name:
            return find_name(out);
        case At::Arguments:
            return take_arguments(out);
        case At::Tail: {
            const std::size_t close = buffer_.find(kClose);
            if (close == std::string::npos) {
                return false;
            }
            buffer_.erase(0, close + kClose.size());
            at_ = At::Text;
            return true;
        }
    }
    return false;
}

bool ToolStream::find_name(std::vector<ToolDelta>& out) {
    const std::size_t arguments = buffer_.find(kArguments);
    if (arguments == std::string::npos) {
        return false;
    }
    constexpr std::string_view kName = "\"name\":";
    const std::size_t key = buffer_.find(kName);
    const std::size_t first = buffer_.find('"', key + kName.size());
    const std::size_t last = buffer_.find('"', first + 1);
    if (key == std::string::npos || first == std::string::npos || last > arguments) {
        at_ = At::Tail;  // no call we understand
        return true;
    }
    out.push_back({ToolDelta::Kind::Start, calls_++, buffer_.substr(first + 1, last - first - 1)});
    buffer_.erase(0, arguments + kArguments.size());
    at_ = At::Arguments;
    depth_ = 0;
    return true;
}

bool ToolStream::take_arguments(std::vector<ToolDelta>& out) {
    if (depth_ == 0) {
        buffer_.erase(0, buffer_.find_first_not_of(' '));
    }
    std::size_t i = 0;
    bool ended = false;
    for (; i < buffer_.size() && !ended; ++i) {
        const char c = buffer_[i];
        if (in_string_) {
            in_string_ = is_escaped_ || c != '"';
            is_escaped_ = !is_escaped_ && c == '\\';
        } else if (c == '"') {
            in_string_ = true;
        } else if (c == '{' || c == '[') {
            ++depth_;
        } else if (c == '}' || c == ']') {
            ended = --depth_ == 0;
        }
    }
    if (i > 0) {
        out.push_back({ToolDelta::Kind::Arguments, calls_ - 1, buffer_.substr(0, i)});
        buffer_.erase(0, i);
    }
    if (ended) {
        at_ = At::Tail;
    }
    return ended;
}

ToolAnswer parse_tools(std::string_view answer) {
    ToolAnswer out;
    if (answer.find(kClose) == std::string_view::npos) {
        out.text = answer;
        return out;
    }
    ToolStream stream;
    for (ToolDelta& d : stream.push(answer)) {
        switch (d.kind) {
            case ToolDelta::Kind::Text:
                out.text += out.calls.empty() ? d.text : "";
                break;
            case ToolDelta::Kind::Start:
                out.calls.push_back({std::move(d.text), ""});
                break;
            case ToolDelta::Kind::Arguments:
                out.calls.back().arguments += d.text;
                break;
        }
    }
    if (out.calls.empty()) {
        out.text = answer;
    }
    return out;
}

}  // namespace sluice::sim::vllm
