// The rule fields this adapter takes, as the JSON Schema subset of the SDK, on one line.
#pragma once

namespace sluice::trtllm {

const char* const kConfigSchema =
    // One line: descriptors hold no line breaks.
    R"({)"
    R"("type":"object","additionalProperties":false,"properties":{)"
    R"("kvBlockSize":{"type":"integer","minimum":1,"maximum":65536,"x-unit":"tokens","title":"KV block size",)"
    R"("description":"The engine's tokens_per_block. Absent: the engine's own, else 32; a given value is checked against it."},)"
    R"("kvHashAlgo":{"type":"string","maxLength":64,"title":"Hash algorithm",)"
    R"("description":"blockhash_trtllm or absent. Only attested; routing does not need it."},)"
    R"("kvZmqPort":{"type":"integer","minimum":0,"maximum":65535,"title":"KV event port",)"
    R"("description":"Not used: events come by the serving port. Absent, 0 or 5557."},)"
    R"("kvDpRankCount":{"type":"integer","minimum":1,"maximum":8,"title":"Data-parallel ranks",)"
    R"("description":"Not used: ranks are learned from events. Absent or 1."},)"
    R"("trt_disagg_key_file":{"type":"string","maxLength":4096,"title":"Key of hand-offs",)"
    R"("description":"File of the engines' internal_request_auth_key, which signs generation legs."}}})";

}  // namespace sluice::trtllm
