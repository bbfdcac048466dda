"""KV events of the simulated TensorRT-LLM: forms, hashes, ranks, windows, losses."""

import json

import pytest

from harness import VECTORS, start_trt, wait_until

FAST = ("--decode-us-per-token", 0, "--prefill-us-per-token", 0, "--tokens-per-block", 8)
LONG = list(range(1, 26))  # three full blocks and a token


def ask(engine, prompt=None, **more):
    body = {"model": "sim", "prompt": LONG if prompt is None else prompt, "max_tokens": 1, **more}
    reply = engine.post("/v1/completions", body)
    assert reply.status == 200, reply.body
    return reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


def of_type(events, kind):
    return [e for e in events if e["data"]["type"] == kind]


def blocks(events, full=8):
    return [b for e in of_type(events, "stored") for b in e["data"]["blocks"]
            if len(b["tokens"]) == full]


def golden():
    with open(VECTORS / "trtllm_block_hashes.jsonl", encoding="utf-8") as f:
        for line in map(json.loads, f):
            ids = line["prompt_token_ids"]
            if (all(isinstance(t, int) and t < 256 for t in ids) and line["full_block_hashes"]
                    and not line["uses_extra_ids"] and not line["mm_keys_per_block"]
                    and line["cache_salt"] is None and line["cache_salt_id"] is None):
                yield line


@pytest.mark.parametrize("line", golden(), ids=lambda line: line["id"])
def test_events_carry_the_hashes_of_the_engine(line):
    with start_trt("--tokens-per-block", line["tokens_per_block"], "--manager", line["manager"],
                   "--hash-algo", line["scheme"], "--decode-us-per-token", 0) as engine:
        # The engine does not store the last token before the answer: one more keeps all blocks.
        ids = line["prompt_token_ids"] + [7] * (line["token_rule"] == "all_tokens")
        lora = line["lora_task_id"]
        if lora is not None and int(lora) >= 1 << 63:
            pytest.skip("no such id in a request")
        more = {} if lora is None else {
            "lora_request": {"lora_name": "a", "lora_int_id": int(lora)}}
        ask(engine, ids, **more)
        have = blocks(engine.drain(), line["tokens_per_block"])
        want = line["full_block_hashes"]
        assert [str(b["block_hash"]) for b in have][:len(want)] == want


@pytest.mark.parametrize("era", ["0.21", "1.0", "1.1", "1.2", "1.3-early", "1.3-late", "main"])
def test_the_envelope_is_the_eras(era):
    flags = ("--era", era, "--dp-size", 2, "--drain-tail-ms", 1000, *FAST)
    with start_trt(*flags) as engine:
        for _ in range(2):
            engine.post("/v1/completions", {"model": "sim", "prompt": LONG, "max_tokens": 1})
        events = engine.drain()
        late = era in ("1.3-late", "main")
        for event in events:
            keys = {"event_id", "data", "window_size"} | ({"attention_dp_rank"} if era != "0.21" else set())
            assert set(event) == keys
        block = blocks(events)[0]
        assert ("cache_salt" in block) == late
        assert ("mm_keys" in block) == (era not in ("0.21", "1.0"))
        assert {(t["type"], t["token_extra_id"]) for t in block["tokens"]} == {("unique_token", 0)}


def test_the_v2_manager_tags_its_events():
    with start_trt("--manager", "v2", "--windows", "4096,128", *FAST) as engine:
        ask(engine)
        events = engine.drain()
        assert {e["hash_algo"] for e in events} == {"v1_block_key"}
        assert {(e["window_size"], e["layer_group_id"]) for e in events} == {(4096, 0), (128, 1)}
    with start_trt("--manager", "v2", "--hash-algo", "v2_sha256", *FAST) as engine:
        ask(engine)
        stored = of_type(engine.drain(), "stored")
        assert stored[0]["hash_algo"] == "v2_sha256"
        assert [len(b["block_hash"]) for b in stored[0]["data"]["blocks"]] == [64] * 3


def test_ids_count_up_and_created_is_the_first():
    with start_trt(*FAST) as engine:
        assert engine.drain() == []  # nothing before the first iteration
        ask(engine)
        events = engine.drain()
        assert [e["event_id"] for e in events] == list(range(len(events)))
        assert [e["data"]["type"] for e in events][0] == "created"
        assert engine.drain() == []


def test_what_is_reported_as_cached_is_what_the_events_said():
    with start_trt("--blocks", 40, "--max-seq-len", 128, *FAST) as engine:
        held = {}
        for turn in range(60):
            prompt = [turn % 7] * 9 + [turn % 13] * 20
            cached = ask(engine, prompt)
            chain, n = None, 0
            for i in range((len(prompt) - 1) // 8):
                chain = next((h for h, (p, t) in held.items()
                              if p == chain and t == prompt[i * 8:i * 8 + 8]), None)
                if chain is None:
                    break
                n += 8
            assert cached == n
            for event in engine.drain():
                data = event["data"]
                if data["type"] == "removed":
                    for h in data["block_hashes"]:
                        held.pop(h, None)
                if data["type"] == "stored":
                    parent = data["parent_hash"]
                    for b in data["blocks"]:
                        held[b["block_hash"]] = (parent, [t["token_id"] for t in b["tokens"]])
                        parent = b["block_hash"]
        full = {str(h) for h, (_, t) in held.items() if len(t) == 8}
        assert set(engine.cache()) == full


def test_each_rank_has_its_cache_and_its_numbers():
    with start_trt("--dp-size", 2, *FAST) as engine:
        assert [ask(engine) for _ in range(4)] == [0, 0, 24, 24]  # in turn: no hit on the other
        events = engine.drain()
        for rank in (0, 1):
            ids = [e["event_id"] for e in events if e["attention_dp_rank"] == rank]
            assert ids == list(range(len(ids))) and len(ids) > 1
        assert set(engine.cache(0)) == set(engine.cache(1))


def test_salts_and_adapters_are_other_blocks_and_only_a_salt_is_told():
    with start_trt(*FAST) as engine:
        lora = {"lora_request": {"lora_name": "a", "lora_int_id": 3}}
        assert ask(engine) == 0
        assert ask(engine, cache_salt="tenant") == 0
        assert ask(engine, **lora) == 0
        assert ask(engine, cache_salt="tenant") == ask(engine, **lora) == 24
        plain, salted, adapted = of_type(engine.drain(), "stored")[:6:2]
        assert plain["data"]["blocks"][0]["cache_salt"] is None
        assert salted["data"]["blocks"][0]["cache_salt"] == "tenant"
        assert adapted["data"]["blocks"][0]["cache_salt"] is None
        first = [e["data"]["blocks"][0] for e in (plain, salted, adapted)]
        assert len({b["block_hash"] for b in first}) == 3
        assert first[0]["tokens"] == first[1]["tokens"] == first[2]["tokens"]
    with start_trt("--manager", "v2", *FAST) as engine:
        ask(engine, cache_salt="tenant")
        assert blocks(engine.drain())[0]["cache_salt"] is None


def test_an_image_is_a_key_of_its_blocks_or_a_digest_among_their_tokens():
    def chat(engine, url):
        content = [{"type": "text", "text": "look at this"},
                   {"type": "image_url", "image_url": {"url": url}}]
        body = {"model": "sim", "messages": [{"role": "user", "content": content}], "max_tokens": 1}
        reply = engine.post("/v1/chat/completions", body)
        return reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    with start_trt(*FAST) as engine:
        assert chat(engine, "data:one") == 0
        same, other = chat(engine, "data:one"), chat(engine, "data:two")
        assert same > other > 0  # the text before the image is shared
        keys = [k for b in blocks(engine.drain()) for k in b["mm_keys"]]
        assert {len(k["hash"]) for k in keys} == {64}
        assert {k["start_offset"] for k in keys} > {0}
    with start_trt("--manager", "v2", *FAST) as engine:
        chat(engine, "data:one")
        have = blocks(engine.drain())
        assert all(b["mm_keys"] == [] for b in have)
        assert any(isinstance(t["token_id"], str) for b in have for t in b["tokens"])


def test_evicted_blocks_go_to_the_host_and_come_back():
    with start_trt("--blocks", 8, "--host-blocks", 8, "--max-seq-len", 64, *FAST) as engine:
        ask(engine)
        ask(engine, [9] * 57)
        moved = of_type(engine.drain(), "updated")
        assert moved and all(e["data"]["cache_level"]["new_value"] == 1 for e in moved)
        assert ask(engine) == 24
        back = of_type(engine.drain(), "updated")
        assert sum(e["data"]["cache_level"]["new_value"] == 0 for e in back) >= 3


def test_a_small_ring_loses_the_oldest_events():
    with start_trt("--event-buffer-max-size", 4, *FAST) as engine:
        for n in range(5):
            ask(engine, [n] * 25)
        events = engine.drain()
        assert len(events) == 4 and events[0]["event_id"] > 0
        assert engine.drains()["overflowed"] == events[0]["event_id"]


@pytest.mark.parametrize("flags", [
    ("--event-buffer-max-size", 0),
    ("--no-enable-block-reuse",),
    ("--era", "main", "--kv-events-config", '{"enable_kv_cache_events":true}'),
])
def test_three_ways_to_see_no_events_look_the_same(flags):
    with start_trt(*flags, *FAST) as engine:
        ask(engine)
        assert engine.drain() == []
        cached = ask(engine)
        assert cached == (0 if "--no-enable-block-reuse" in flags else 24)


def test_a_restarted_engine_counts_anew_and_is_silent_until_its_first_request():
    with start_trt(*FAST) as engine:
        ask(engine)
        engine.drain()
        address = engine.address
        engine.restart()
        assert engine.address == address
        assert engine.drain() == []
        ask(engine)
        events = engine.drain()
        assert events[0]["event_id"] == 0 and events[0]["data"]["type"] == "created"


def test_numbers_can_be_skipped_and_events_put_in():
    with start_trt(*FAST) as engine:
        ask(engine)
        last = engine.drain()[-1]["event_id"]
        engine.skip_ids(5)
        ask(engine, [3] * 25)
        assert engine.drain()[0]["event_id"] == last + 6
        odd = {"event_id": 99, "data": {"type": "strange"}, "window_size": 4096}
        engine.add_events({}, odd)
        assert engine.drain() == [{}, odd]


def test_a_cache_that_is_emptied_removes_its_blocks():
    with start_trt(*FAST) as engine:
        ask(engine)
        engine.drain()
        engine.post("/sim/reset")
        (removed,) = engine.drain()
        assert removed["data"]["type"] == "removed" and len(removed["data"]["block_hashes"]) >= 3
        wait_until(lambda: engine.cache() == {}, 5, "an empty cache")
        assert ask(engine) == 0
