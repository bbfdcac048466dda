// What is stored: the audit trail, snapshot and restore, export and import, backup.
#include "core/admin/lookup.hpp"
#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/rules/snapshot.hpp"
#include "core/rules/stored.hpp"

namespace sluice::admin {
namespace {

using rules::Json;
using Kind = Param::Kind;

// Of an answer of the audit trail; bodies are large.
constexpr std::size_t kAuditAnswerBytes = 4U << 20U;

Response storage_refusal(const Error& error) {
    rules::Refusal refusal = rules::store_refusal(error);
    refusal.message = error.what;
    return refusal_response(refusal);
}

// A body as JSON, other texts as they are, nothing as null.
Json shown(const std::string& text) {
    if (text.empty()) {
        return {};
    }
    auto parsed = Json::parse(text);
    return parsed.ok() && parsed->object() != nullptr ? std::move(*parsed) : Json(text);
}

Response get_audit(Context& context, Request& request) {
    state::AuditQuery query;
    query.limit = number_param(request, "limit", 100);
    query.before = number_param(request, "before", 0);
    query.subject = request.param("subject");
    query.max_bytes = kAuditAnswerBytes;
    auto rows = context.book.store().audit(query);
    if (!rows) {
        return storage_refusal(rows.error());
    }
    Json::Array out;
    for (const state::AuditRow& row : *rows) {
        out.emplace_back(Json::Object{{"seq", row.seq},
                                      {"at", rfc3339(row.at_us)},
                                      {"who", row.who},
                                      {"from", row.from},
                                      {"action", row.action},
                                      {"subject", row.subject},
                                      {"before", shown(row.before)},
                                      {"after", shown(row.after)}});
    }
    return json_response(Json::Object{{"audit", std::move(out)}});
}

Response get_snapshot(Context& context, Request&) {
    auto contents = context.book.store().load();
    return contents ? json_response(rules::snapshot_of(*contents, wall_us()))
                    : storage_refusal(contents.error());
}

Response get_export(Context& context, Request&) {
    auto contents = context.book.store().load();
    return contents ? json_response(rules::export_of(*contents, wall_us()))
                    : storage_refusal(contents.error());
}

const char* kind_name(rules::BulkChange::Kind kind) {
    switch (kind) {
        case rules::BulkChange::Kind::Created:
            return "created";
        case rules::BulkChange::Kind::Replaced:
            return "replaced";
        case rules::BulkChange::Kind::Deleted:
            break;
    }
    return "deleted";
}

Response bulk_response(Context& context, const Request& request, const rules::Bulk& done) {
    Json::Object out;
    if (done.refusal) {
        const rules::Refusal& why = *done.refusal;
        Json::Array refused;
        for (const rules::BulkRefused& one : done.refused) {
            refused.emplace_back(Json::Object{{"index", one.index},
                                              {"id", one.id},
                                              {"name", one.name},
                                              {"code", one.why.code},
                                              {"field", one.why.field},
                                              {"message", one.why.message},
                                              {"allowed", one.why.allowed}});
        }
        return json_response(Json::Object{{"code", why.code},
                                          {"field", why.field},
                                          {"message", why.message},
                                          {"allowed", why.allowed},
                                          {"result", why.message},
                                          {"refused", std::move(refused)}},
                             why.status);
    }
    std::map<std::string, std::uint64_t> counts{{"created", 0}, {"replaced", 0}, {"deleted", 0}};
    Json::Array changes;
    for (const rules::BulkChange& change : done.changes) {
        ++counts[kind_name(change.kind)];
        Json::Array warnings;
        for (const rules::Warning& w : change.warnings) {
            warnings.emplace_back(
                Json::Object{{"code", w.code}, {"field", w.field}, {"message", w.message}});
        }
        changes.emplace_back(Json::Object{{"change", kind_name(change.kind)},
                                          {"number", change.number},
                                          {"id", change.id},
                                          {"name", change.name},
                                          {"warnings", std::move(warnings)}});
    }
    Json::Array settings;
    for (const std::string& name : done.settings) {
        settings.emplace_back(name);
    }
    for (const auto& [name, count] : counts) {
        out.emplace(name, count);
    }
    if (done.is_committed) {
        log::info("configuration replaced", {{"path", request.path},
                                             {"created", counts["created"]},
                                             {"replaced", counts["replaced"]},
                                             {"deleted", counts["deleted"]},
                                             {"by", request.actor},
                                             {"from", request.address}});
    }
    out.emplace("result", "Success");
    out.emplace("committed", done.is_committed);
    out.emplace("unchanged", done.unchanged);
    out.emplace("settings", std::move(settings));
    out.emplace("changes", std::move(changes));
    out.emplace("generation", context.book.last_persist().generation);
    return json_response(std::move(out));
}

Response post_restore(Context& context, Request& request) {
    Json document;
    if (auto refusal = rules::read_document(request.body, document)) {
        return refusal_response(*refusal);
    }
    bool is_commit = false;
    if (const auto at = document.object()->find("commit"); at != document.object()->end()) {
        if (at->second.boolean() == nullptr) {
            return refusal_response(
                {422, "wrong_type", "commit",
                 "commit must be true or false, not " + std::string(at->second.kind()),
                 "true or false"});
        }
        is_commit = *at->second.boolean();
    }
    state::Contents wanted;
    if (auto refusal = rules::read_snapshot(document, wanted)) {
        return refusal_response(*refusal);
    }
    return bulk_response(context, request,
                         context.book.restore(wanted, is_commit, actor_of(request)));
}

Response post_import(Context& context, Request& request) {
    Json document;
    if (auto refusal = rules::read_document(request.body, document)) {
        return refusal_response(*refusal);
    }
    std::vector<std::string> bodies;
    if (auto refusal = rules::read_export(document, bodies)) {
        return refusal_response(*refusal);
    }
    const bool is_whole = request.param("mode") == "replace";
    return bulk_response(context, request,
                         context.book.import(bodies, is_whole, actor_of(request)));
}

Response post_persist(Context& context, Request&) {
    if (auto done = context.book.store().persist(); !done) {
        return storage_refusal(done.error());
    }
    const rules::Persisted last = context.book.last_persist();
    return json_response(Json::Object{
        {"result", "Success"},
        {"generation", last.generation},
        {"at", last.at_us == 0 ? Json() : Json(rfc3339(last.at_us))},
    });
}

Response get_backup(Context& context, Request& request) {
    auto bytes = context.book.store().backup();
    if (!bytes) {
        if (bytes.error().code == Code::Limit) {
            return refusal_response({503, "backup_too_large", "", bytes.error().what, ""});
        }
        return storage_refusal(bytes.error());
    }
    log::info("backup given out",
              {{"bytes", bytes->size()}, {"by", request.actor}, {"from", request.address}});
    Response out;
    out.content_type = "application/vnd.sqlite3";
    out.headers.emplace_back("Content-Disposition", "attachment; filename=\"sluice.db\"");
    out.body = std::move(*bytes);
    return out;
}

constexpr Param kAuditParams[] = {
    {"limit", "At most so many rows (100).", Kind::Number, 1, 1000},
    {"before", "Only rows older than the one of this seq, e.g. the last of the answer before.",
     Kind::Number, 1, INT64_MAX},
    {"subject", "Only rows about this: a rule's id, a setting's name."},
};

constexpr Param kImportParams[] = {
    {"mode",
     "merge (default) leaves rules alone that the document does not name; replace deletes them.",
     Kind::Text, 0, 0, "merge|replace"},
};

const Route kRoutes[] = {
    {.method = "GET",
     .pattern = "/netlox/v1/config/audit",
     .handler = get_audit,
     .summary =
         "Who changed what, from where, newest first; less than `limit` where bodies are large.",
     .access = Access::Admin,
     .query = kAuditParams,
     .reply = "Audit",
     .may = "503"},
    {.method = "GET",
     .pattern = "/netlox/v1/config/snapshot",
     .handler = get_snapshot,
     .summary = "Everything stored, to be brought back as it is; without secrets.",
     .access = Access::Admin,
     .reply = "Snapshot",
     .may = "503"},
    {.method = "POST",
     .pattern = "/netlox/v1/config/restore",
     .handler = post_restore,
     .summary = "Brings a snapshot back; without `commit` it is checked only.",
     .body = "Restore",
     .reply = "Bulk",
     .may = "403 409 413 422 503 507",
     .max_body = rules::kMaxDocumentBytes},
    {.method = "GET",
     .pattern = "/netlox/v1/config/export",
     .handler = get_export,
     .summary = "The rules as they were posted, without identities and secrets.",
     .access = Access::Admin,
     .reply = "Export",
     .may = "503"},
    {.method = "POST",
     .pattern = "/netlox/v1/config/import",
     .handler = post_import,
     .summary = "Puts every rule of an export, or none.",
     .query = kImportParams,
     .body = "Export",
     .reply = "Bulk",
     .may = "403 409 413 422 503 507",
     .max_body = rules::kMaxDocumentBytes},
    {.method = "POST",
     .pattern = "/netlox/v1/config/persist",
     .handler = post_persist,
     .summary = "Folds the log into the database file. Every change is durable without it.",
     .reply = "PersistDone",
     .may = "503 507"},
    {.method = "GET",
     .pattern = "/netlox/v1/config/backup",
     .handler = get_backup,
     .summary = "The database of this moment, as a file. It holds secrets.",
     .access = Access::Admin,
     .reply = "application/vnd.sqlite3",
     .may = "503"},
};

constexpr Schema kSchemas[] = {
    {"Audit", R"({"type":"object","required":["audit"],"properties":{"audit":{"type":"array",
        "items":{"type":"object",
        "required":["seq","at","who","from","action","subject","before","after"],"properties":{
        "seq":{"type":"integer","minimum":1},"at":{"type":"string","format":"date-time"},
        "who":{"type":"string"},"from":{"type":"string"},"action":{"type":"string"},
        "subject":{"type":"string"},"before":{"type":["object","string","null"]},
        "after":{"type":["object","string","null"]}}}}}})"},
    {"Snapshot", R"({"type":"object","required":["format","taken","store_id","generation",
        "counters","settings","rules","digest"],"properties":{
        "format":{"type":"integer","minimum":1},"taken":{"type":"string","format":"date-time"},
        "store_id":{"type":"string"},"generation":{"type":"integer","minimum":0},
        "counters":{"type":"object","required":["next_rule_number","next_endpoint_id"],
        "properties":{"next_rule_number":{"type":"integer","minimum":1},
        "next_endpoint_id":{"type":"integer","minimum":1}}},
        "settings":{"type":"object","additionalProperties":{"type":"string"}},
        "rules":{"type":"array","items":{"$ref":"#/components/schemas/SnapshotRule"}},
        "digest":{"type":"string"}}})"},
    {"SnapshotRule", R"({"type":"object","required":["number","id","generation","next_ep_idx",
        "body","endpoints"],"properties":{"number":{"type":"integer","minimum":1},
        "id":{"type":"string"},"generation":{"type":"integer","minimum":1},
        "next_ep_idx":{"type":"integer","minimum":1},"body":{"type":"object"},
        "endpoints":{"type":"array","items":{"type":"object",
        "required":["id","ep_idx","endpointIP","targetPort","ep_role"],"properties":{
        "id":{"type":"integer","minimum":1},"ep_idx":{"type":"integer","minimum":0},
        "endpointIP":{"type":"string"},"targetPort":{"type":"integer","minimum":1,"maximum":65535},
        "ep_role":{"type":"integer","minimum":0,"maximum":2}}}}}})"},
    {"Restore", R"({"allOf":[{"$ref":"#/components/schemas/Snapshot"},{"type":"object",
        "properties":{"commit":{"type":"boolean","default":false}}}]})"},
    {"Export", R"({"type":"object","required":["rules"],"additionalProperties":false,"properties":{
        "format":{"type":"integer","minimum":1,"maximum":1},"taken":{"type":"string"},
        "rules":{"type":"array","items":{"type":"object"}}}})"},
    {"Bulk", R"({"type":"object","required":["result","committed","created","replaced","deleted",
        "unchanged","settings","changes","generation"],"properties":{"result":{"type":"string"},
        "committed":{"type":"boolean"},"created":{"type":"integer"},
        "replaced":{"type":"integer"},"deleted":{"type":"integer"},
        "unchanged":{"type":"integer"},"settings":{"type":"array","items":{"type":"string"}},
        "changes":{"type":"array","items":{"type":"object",
        "required":["change","number","id","name","warnings"],"properties":{
        "change":{"enum":["created","replaced","deleted"]},"number":{"type":"integer"},
        "id":{"type":"string"},"name":{"type":"string"},
        "warnings":{"type":"array","items":{"type":"object"}}}}},
        "generation":{"type":"integer","minimum":0}}})"},
    {"PersistDone", R"({"type":"object","required":["result","generation","at"],"properties":{
        "result":{"type":"string"},"generation":{"type":"integer","minimum":0},
        "at":{"type":["string","null"]}}})"},
};

}  // namespace

Topic store_topic() {
    return {"store", kRoutes, kSchemas};
}

}  // namespace sluice::admin
