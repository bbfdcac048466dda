#include <sluice/sdk/engine.h>
#include <sluice/sdk/selector.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>
#include <thread>

#include "sdk/check/checks.hpp"
#include "sdk/check/each.hpp"
#include "sdk/check/text.hpp"

namespace sluice::check {
namespace {

constexpr int kThreads = 8;
constexpr int kRounds = 200;
constexpr std::uint32_t kRows = 40;
constexpr std::string_view kBody =
    R"({"model":"m","messages":[{"role":"user","content":"hello"}],"stream":true,"max_tokens":16})";

// What several threads found wrong; the first is kept.
class Findings {
public:
    void add(std::string what) {
        const std::lock_guard lock(mu_);
        if (first_.empty()) {
            first_ = std::move(what);
        }
    }
    std::string first() const {
        const std::lock_guard lock(mu_);
        return first_;
    }

private:
    mutable std::mutex mu_;
    std::string first_;
};

sluice_request make_request(std::uint64_t id) {
    sluice_request request{};
    request.size = sizeof request;
    request.flags = id % 2 == 0 ? std::uint32_t{SLUICE_REQ_STREAM} : 0U;
    request.id = id;
    request.prefix_hash = id * 0x9E3779B97F4A7C15U;
    request.request_id = borrow("00000000-0000-4000-8000-000000000000");
    request.path = borrow("/v1/chat/completions");
    request.model = borrow("m");
    request.client = borrow("127.0.0.1");
    request.num_prompts = 1;
    request.num_choices = 1;
    request.max_new_tokens = 16;
    return request;
}

// The members of kBody, as a gateway would hand them over.
std::vector<sluice_field> fields_of_body() {
    struct Row {
        const char* name;
        std::uint32_t type;
        const char* value;
    };
    std::vector<sluice_field> out;
    for (const Row& row :
         {Row{"model", SLUICE_JSON_STRING, "\"m\""},
          Row{"messages", SLUICE_JSON_ARRAY, R"([{"role":"user","content":"hello"}])"},
          Row{"stream", SLUICE_JSON_BOOL, "true"}, Row{"max_tokens", SLUICE_JSON_NUMBER, "16"}}) {
        sluice_field field{};
        field.size = sizeof field;
        field.type = row.type;
        field.name = borrow(row.name);
        field.at = kBody.find("\"" + std::string(row.name) + "\"");
        field.value_at = field.at + std::string_view(row.name).size() + 3;
        field.value_bytes = std::string_view(row.value).size();
        out.push_back(field);
    }
    return out;
}

// Runs f(thread, round) on kThreads threads while this one plays the event thread.
void storm(TestInstance& instance, Findings& findings,
           const std::function<std::string(int, int)>& f) {
    std::atomic<int> running{kThreads};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (int round = 0; round < kRounds; ++round) {
                if (std::string what = f(t, round); !what.empty()) {
                    findings.add(std::move(what));
                }
            }
            --running;
        });
    }
    while (running > 0) {
        instance.host().pump(1, 100'000);
        std::this_thread::yield();
    }
    for (auto& thread : threads) {
        thread.join();
    }
}

std::vector<sluice_candidate> make_rows() {
    static constexpr const char* kNames[] = {"127.0.0.1:8000", "127.0.0.2:8000", "127.0.0.3:8000"};
    std::vector<sluice_candidate> rows(kRows);
    for (std::uint32_t i = 0; i < kRows; ++i) {
        sluice_candidate& row = rows[i];
        row.size = sizeof row;
        row.excluded = i % 5 == 0 ? std::uint32_t{SLUICE_EX_DOWN} : 0U;
        row.endpoint = 100 + i;
        row.dp_rank = SLUICE_ANY;
        row.roles = SLUICE_ROLE_WHOLE;
        row.weight = i % 3 + 1;
        row.inflight = i % 7;
        row.kv_used_ratio = i % 4 == 0 ? -1.0F : 0.25F;
        row.load_age_us = i % 6 == 0 ? UINT64_MAX : 1000;
        row.name = borrow(kNames[i % 3]);
    }
    return rows;
}

std::string one_choice(const sluice_selector& table, sluice_instance* self,
                       const std::vector<sluice_candidate>& rows, const sluice_view* view,
                       const sluice_request& request) {
    sluice_choice choice{};
    choice.size = sizeof choice;
    choice.leg = SLUICE_LEG_SINGLE;
    choice.request = &request;
    choice.view = view;
    choice.candidates = {rows.data(), kRows, sizeof(sluice_candidate)};
    std::vector<std::uint8_t> keep(kRows, 1);
    std::vector<float> scores(kRows, 0.0F);
    std::uint32_t index = UINT32_MAX;
    if (table.filter != nullptr && !is_known(table.filter(self, &choice, keep.data()))) {
        return "filter returns a status nobody knows";
    }
    if (table.score != nullptr && table.score(self, &choice, scores.data()) == SLUICE_OK) {
        for (const float score : scores) {
            if (std::isnan(score) || score < 0 || score > 1) {
                return "a score is outside 0..1";
            }
        }
        choice.scores = scores.data();
    }
    if (table.pick != nullptr) {
        const sluice_status status = table.pick(self, &choice, &index);
        if (!is_known(status) || status == SLUICE_E_INTERNAL) {
            return "pick returns " + status_name(status);
        }
        if (status == SLUICE_OK && (index >= kRows || rows[index].excluded != 0)) {
            return "picks a row that may not be chosen";
        }
    }
    if (table.observe != nullptr) {
        sluice_outcome outcome{};
        outcome.size = sizeof outcome;
        outcome.phase = request.id % 2 == 0 ? SLUICE_PHASE_HEAD : SLUICE_PHASE_END;
        outcome.http_code = 200;
        outcome.request_id = request.id;
        outcome.endpoint = rows[request.id % kRows].endpoint;
        outcome.session = borrow(request.id % 3 == 0 ? "session" : "");
        table.observe(self, &outcome);
    }
    return {};
}

Outcome selector_storm(TestInstance& instance) {
    const auto& table = *static_cast<const sluice_selector*>(
        instance.self()->query(instance.self(), SLUICE_EXT_SELECTOR));
    const auto rows = make_rows();
    sluice_view* prepared = nullptr;
    if (table.prepare != nullptr) {
        auto err = empty_error();
        const auto status = table.prepare(
            instance.self(), {rows.data(), kRows, sizeof(sluice_candidate)}, &prepared, &err);
        if (status != SLUICE_OK) {
            return failed("prepare: " + status_name(status) + " " + text_of(err));
        }
    }
    Findings findings;
    storm(instance, findings, [&](int t, int round) {
        const auto request = make_request(static_cast<std::uint64_t>(t * kRounds + round + 1));
        return one_choice(table, instance.self(), rows, prepared, request);
    });
    if (prepared != nullptr && table.release != nullptr) {
        table.release(instance.self(), prepared);
    }
    return findings.first().empty() ? passed() : failed(findings.first());
}

// What build_leg says, checked: spans ascending, disjoint and within the body.
struct Edits {
    std::uint64_t end = 0;
    bool is_broken = false;
};
sluice_status note_edit(void* ctx, std::uint64_t at, std::uint64_t erase, const void*,
                        std::size_t) noexcept {
    auto& edits = *static_cast<Edits*>(ctx);
    edits.is_broken =
        edits.is_broken || at < edits.end || at > kBody.size() || erase > kBody.size() - at;
    edits.end = at + erase;
    return SLUICE_OK;
}
sluice_status note_header(void*, sluice_str, sluice_str) noexcept {
    return SLUICE_OK;
}
sluice_status note_bytes(void*, const void*, std::size_t) noexcept {
    return SLUICE_OK;
}
void note_ids(void*, const std::uint32_t*, std::size_t) noexcept {}

std::string one_leg(const sluice_engine& table, sluice_instance* self, const sluice_leg& leg,
                    bool may_build) {
    if (may_build && table.build_leg != nullptr) {
        Edits edits;
        sluice_leg_out out{sizeof(sluice_leg_out), 0, &edits, &note_edit, &note_header};
        auto err = empty_error();
        const auto status = table.build_leg(self, &leg, &out, &err);
        if (!is_known(status) || status == SLUICE_E_INTERNAL) {
            return "build_leg returns " + status_name(status) + " " + text_of(err);
        }
        if (edits.is_broken) {
            return "the edits of build_leg overlap, go back or leave the body";
        }
    }
    if (table.on_reply == nullptr) {
        return {};
    }
    static constexpr std::string_view kReplies[] = {
        R"({"error":{"message":"no","type":"invalid_request_error","code":400}})", "", "not JSON"};
    static constexpr std::uint32_t kCodes[] = {400, 503, 500};
    const std::size_t which = leg.request->id % 3;
    sluice_reply reply{};
    reply.size = sizeof reply;
    // Only a prefill leg's success is judged.
    reply.http_code = leg.kind == SLUICE_LEG_PREFILL && which == 2 ? 200 : kCodes[which];
    reply.body = {reinterpret_cast<const std::uint8_t*>(kReplies[which].data()),
                  kReplies[which].size()};
    sluice_reply_out out{};
    out.size = sizeof out;
    out.cached_tokens = SLUICE_ANY;
    out.handoff = {nullptr, &note_bytes};
    out.body = {nullptr, &note_bytes};
    out.set_header = &note_header;
    out.prompt_ids = &note_ids;
    auto err = empty_error();
    const auto status = table.on_reply(self, &leg, &reply, &out, &err);
    if (!is_known(status) || status == SLUICE_E_INTERNAL) {
        return "on_reply returns " + status_name(status) + " " + text_of(err);
    }
    if (status == SLUICE_OK && (out.next < SLUICE_NEXT_CONTINUE || out.next > SLUICE_NEXT_FAIL)) {
        return "on_reply goes on with the unknown step " + std::to_string(out.next);
    }
    return {};
}

Outcome engine_storm(TestInstance& instance) {
    const auto& table = *static_cast<const sluice_engine*>(
        instance.self()->query(instance.self(), SLUICE_EXT_ENGINE));
    const sluice_engine_info* info = table.info == nullptr ? nullptr : table.info(instance.self());
    if (info == nullptr || table.attach == nullptr || table.detach == nullptr) {
        return failed("info, attach or detach is missing");
    }
    sluice_endpoint endpoint{};
    endpoint.size = sizeof endpoint;
    endpoint.roles = SLUICE_ROLE_WHOLE;
    endpoint.id = 7;
    endpoint.base_url = borrow("http://127.0.0.1:8000");
    endpoint.address = borrow("127.0.0.1");
    endpoint.name = borrow("127.0.0.1:8000");
    endpoint.fields = borrow("{}");
    endpoint.num_dp_ranks = 1;
    endpoint.weight = 1;
    sluice_attachment* at = nullptr;
    instance.host().attach(endpoint.id);
    {
        const EventTurn turn(instance.host());
        auto err = empty_error();
        const auto status =
            table.attach(instance.self(), &endpoint,
                         SLUICE_WATCH_KV | SLUICE_WATCH_LOAD | SLUICE_WATCH_MODELS, &at, &err);
        if (status != SLUICE_OK || at == nullptr) {
            return failed("attach: " + status_name(status) + " " + text_of(err));
        }
    }
    const auto fields = fields_of_body();
    const bool may_split = (info->caps & SLUICE_CAP_PD) != 0;
    const bool may_edit = (info->caps & SLUICE_CAP_EDIT_SINGLE) != 0;
    Findings findings;
    storm(instance, findings, [&](int t, int round) -> std::string {
        auto request = make_request(static_cast<std::uint64_t>(t * kRounds + round + 1));
        request.body = {reinterpret_cast<const std::uint8_t*>(kBody.data()), kBody.size()};
        request.fields = {fields.data(), static_cast<std::uint32_t>(fields.size()),
                          sizeof(sluice_field)};
        sluice_leg leg{};
        leg.size = sizeof leg;
        leg.kind = SLUICE_LEG_SINGLE;
        leg.dp_rank = SLUICE_ANY;
        leg.peer_dp_rank = SLUICE_ANY;
        leg.transfer_id = (std::uint64_t{1} << 42U) + request.id;
        leg.request = &request;
        leg.endpoint = &endpoint;
        leg.at = at;
        if (may_split) {
            sluice_plan plan{sizeof(sluice_plan), 0, 0, 0};
            auto err = empty_error();
            const auto status = table.plan(instance.self(), &request, &plan, &err);
            if (!is_known(status) || status == SLUICE_E_INTERNAL) {
                return "plan returns " + status_name(status);
            }
            if (status == SLUICE_OK &&
                (plan.kind < SLUICE_PLAN_WHOLE || plan.kind > SLUICE_PLAN_CONCURRENT)) {
                return "plan gives the unknown kind " + std::to_string(plan.kind);
            }
        }
        auto broken = one_leg(table, instance.self(), leg, may_edit);
        for (const std::uint32_t kind : {SLUICE_LEG_PREFILL, SLUICE_LEG_DECODE}) {
            if (may_split && broken.empty()) {
                leg.kind = kind;
                leg.peer = &endpoint;
                leg.peer_at = at;
                broken = one_leg(table, instance.self(), leg, true);
            }
        }
        return broken;
    });
    {
        const EventTurn turn(instance.host());
        table.detach(instance.self(), at);
    }
    instance.host().detach(endpoint.id);
    if (instance.host().open_things() > 0) {
        return failed("detach leaves timers, calls or sockets behind");
    }
    return findings.first().empty() ? passed() : failed(findings.first());
}

Outcome storms(const Subject& subject) {
    return each_instance(subject, [](const Loaded& plugin, const sluice_plugin_desc& desc,
                                     const std::string&, TestInstance& instance) {
        if (const std::string why = instance.activate(); !why.empty()) {
            return failed(why);
        }
        Outcome outcome = skipped("no request functions known here");
        if (plugin.provides(desc, SLUICE_EXT_SELECTOR)) {
            outcome = selector_storm(instance);
        }
        if (!outcome.is_failed() && plugin.provides(desc, SLUICE_EXT_ENGINE)) {
            outcome = engine_storm(instance);
        }
        instance.end();
        const std::string problems = instance.host().problems();
        return outcome.is_failed() || problems.empty() ? outcome : failed(problems);
    });
}

Outcome silence(const Subject& subject) {
    return each_instance(subject, [](const Loaded&, const sluice_plugin_desc&, const std::string&,
                                     TestInstance& instance) {
        if (const std::string why = instance.activate(); !why.empty()) {
            return failed(why);
        }
        instance.host().pump();
        instance.self()->deactivate(instance.self());
        const std::size_t left = instance.host().open_things();
        instance.host().set_phase(ScriptedHost::Phase::Closed);
        const std::uint64_t calls = instance.host().late_calls();
        // Own threads of the plugin would show themselves in this time.
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        const std::uint64_t late = instance.host().late_calls() - calls;
        instance.end();
        if (left > 0) {
            return failed("deactivate leaves timers, calls or sockets behind");
        }
        return late == 0 ? passed()
                         : failed("calls the gateway " + std::to_string(late) +
                                  " times after deactivate");
    });
}

}  // namespace

void add_thread_checks(std::vector<Check>& out) {
    out.push_back(
        {5, "threads.request", "request functions run on eight threads at once", &storms});
    out.push_back(
        {5, "threads.silence", "after deactivate the gateway hears nothing more", &silence});
}

}  // namespace sluice::check
