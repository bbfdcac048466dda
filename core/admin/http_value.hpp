// A management request and its answer as values, so that routes need no socket.
//
// Threads: any (values).
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/rules/json_value.hpp"
#include "core/rules/refusal.hpp"

namespace sluice::admin {

enum class Role { Viewer, Admin };

struct Request {
    std::string method;
    std::string path;   // still escaped, without query
    std::string query;  // still escaped, without '?'
    std::string authorization;
    std::string content_type;
    std::string host;            // whom the client thinks to talk to, with port
    std::string origin;          // what a browser says about the page that asks
    std::string asked_method{};  // Access-Control-Request-Method: the method of the request to come
    std::string address;         // of the client, without port
    std::string body;

    // Filled on the way to the handler.
    std::map<std::string, std::string, std::less<>> params;  // of the path and of the query
    std::string actor = "local";                             // token name
    // A token was given and is known, or none is needed.
    bool is_identified = false;
    std::size_t max_body = 0;  // of the route, bytes; 0 = the interface's own limit

    // Empty when it is absent.
    const std::string& param(std::string_view name) const;
    bool has(std::string_view name) const { return params.find(name) != params.end(); }
};

// Where the events of an endless answer come from.
class StreamSource {
public:
    virtual ~StreamSource() = default;
    // Appends what has come since the last call, some ten thousand bytes at most. False: the reader
    // was too slow and what it was to read next is lost.
    virtual bool next(std::string& out) = 0;
};

struct Response {
    int status = 200;
    std::string body;
    std::string content_type = "application/json";
    std::vector<std::pair<std::string, std::string>> headers;
    // Instead of a body: the answer goes on for as long as the client listens.
    std::shared_ptr<StreamSource> stream;
};

Response json_response(const rules::Json& body, int status = 200);
Response json_text(std::string body, int status = 200);  // JSON text as it is
Response success();                                      // {"result":"Success"}
Response refusal_response(const rules::Refusal& refusal);
Response error_response(const Error& error);

// %41 and, in a query, '+'. Empty for a broken escape or NUL.
std::optional<std::string> unescape(std::string_view text, bool plus_is_space);
// name=value pairs; a Refusal for a broken escape or a name given twice.
std::optional<rules::Refusal> parse_query(std::string_view query,
                                          std::map<std::string, std::string, std::less<>>& out);

}  // namespace sluice::admin
