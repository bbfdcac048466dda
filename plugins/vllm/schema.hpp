// The rule fields this adapter takes, as the JSON Schema subset of the SDK, on one line.
#pragma once

namespace sluice::vllm {

const char* const kConfigSchema =
    // One line: descriptors hold no line breaks.
    R"({)"
    R"("type":"object","additionalProperties":false,"properties":{)"
    R"("kvZmqPort":{"type":"integer","minimum":0,"maximum":65535,"title":"KV event port",)"
    R"("description":"Port of the engine's KV event publisher; data-parallel rank N is at port+N. 0 or absent: what the engine says, else 5557."},)"
    R"("kvReplayPort":{"type":"integer","minimum":0,"maximum":65535,"title":"KV replay port",)"
    R"("description":"Port of the replay socket, rank N at port+N. 0: none. Absent: what the engine says, else kvZmqPort+1000."},)"
    R"("kvBlockSize":{"type":"integer","minimum":1,"maximum":65536,"x-unit":"tokens","title":"KV block size",)"
    R"("description":"The engine's --block-size. Absent: the engine's own; a given value is checked against it."},)"
    R"("kvHashAlgo":{"type":"string","enum":["sha256_cbor","xxhash_cbor","sha256","xxhash"],"title":"Hash algorithm",)"
    R"("description":"The engine's --prefix-caching-hash-algo. Only attested; routing does not need it."},)"
    R"("kvHashSeed":{"type":"string","maxLength":64,"title":"Hash seed",)"
    R"("description":"The engine's PYTHONHASHSEED. Only attested; routing does not need it."},)"
    R"("kvDpRankCount":{"type":"integer","minimum":1,"maximum":8,"title":"Data-parallel ranks",)"
    R"("description":"Ranks behind one endpoint. Absent: what the engine says, else 1."},)"
    R"("kvDiscovery":{"type":"string","enum":["off","auto"],"default":"auto","title":"Discovery",)"
    R"("description":"auto: ask the engine where it publishes (vLLM 0.31 and later)."},)"
    R"("kvEventsFrom":{"type":"string","maxLength":1024,"title":"Events from a gateway",)"
    R"("description":"Base URL of another gateway that publishes the endpoint's events again; the engine itself is not asked for them."},)"
    R"("pd_connector":{"type":"string","enum":["nixl","lmcache","mooncake"],"default":"nixl","title":"P/D connector",)"
    R"("description":"How the engines of a prefill/decode pool hand KV blocks over."},)"
    R"("kv_lease_duration":{"type":"integer","minimum":1,"maximum":86400,"x-unit":"seconds","title":"KV lease",)"
    R"("description":"kv_lease_duration of the prefill engines (NIXL, 0.22 and later) where it is not 30."},)"
    R"("mooncake_bootstrap_port":{"type":"integer","minimum":1,"maximum":65535,"default":8998,"title":"Mooncake bootstrap port",)"
    R"("description":"VLLM_MOONCAKE_BOOTSTRAP_PORT of the prefill engines."}}})";

// Fields of an endpoint.
const char* const kEndpointSchema =
    R"({"type":"object","additionalProperties":false,"properties":{)"
    R"("nixl_port":{"type":"integer","minimum":0,"maximum":65535,"title":"NIXL port",)"
    R"("description":"Shown in the request ids of a prefill/decode pair instead of the API port; 0: not given."}}})";

}  // namespace sluice::vllm
