// One request of the management interface, from its text to its answer: whom it was meant for,
// where it comes from, route, right, handler.
//
// Threads: any; several requests at a time.
// Errors:  none leave handle(): whatever a handler or a library throws becomes a 500.
#pragma once
#include "core/admin/auth.hpp"
#include "core/admin/router.hpp"

namespace sluice::admin {

class Api {
public:
    Api(Context context, Tokens tokens) : context_(std::move(context)), auth_(std::move(tokens)) {}

    // Before the body is read: an answer when there is no need to read it. `wants_body` says
    // whether the route takes one.
    std::optional<Response> admit(Request& request, bool& wants_body, std::uint64_t now_us);
    // After admit().
    Response answer(Request& request);

    // Takes other tokens from the next request on.
    void replace(Tokens tokens) { auth_.replace(std::move(tokens)); }
    Context& context() noexcept { return context_; }

private:
    std::optional<Response> judge(Request& request, bool& wants_body, std::uint64_t now_us);
    // Counts the answer and says whether a page of another origin may read it.
    Response finished(const Request& request, Response response) const;
    bool is_origin_allowed(const Request& request) const;

    Context context_;
    Router router_;
    Auth auth_;
};

}  // namespace sluice::admin
