"""KV events of the simulated engine: what they say, how they are encoded, where they are had."""

import json
import random
import threading

import pytest

from harness import events_config, start_sim, wait_until
from kv_events import Index, Subscriber, replay

FAST = ("--prefill-us-per-token", 0, "--decode-us-per-token", 0, "--served-model-name", "tiny",
        "--enable-prompt-tokens-details", "--max-model-len", 512)


def engine_with_events(*flags, env=None, **config):
    return start_sim(*FAST, "--block-size", 32, "--kv-events-config", events_config(**config),
                     *flags, env=env)


def complete(engine, prompt, max_tokens=1, headers=(), **more):
    reply = engine.post("/v1/completions",
                        {"prompt": prompt, "max_tokens": max_tokens, **more}, headers)
    assert reply.status == 200, reply.body
    return reply.json()


def cached(reply):
    return reply["usage"]["prompt_tokens_details"]["cached_tokens"]


def tokens(n, first=0):
    return [(first + i) % 250 for i in range(n)]


def test_full_blocks_are_stored_and_the_last_of_a_whole_prompt_is_stored_again():
    with engine_with_events() as engine:
        assert cached(complete(engine, tokens(64))) == 0
        assert cached(complete(engine, tokens(64))) == 32
        first, second = [b.events() for b in replay(engine.replay[0])]
        assert len(first) == len(second) == 1
        assert first[0]["parent_block_hash"] is None
        assert first[0]["token_ids"] == tokens(64)
        assert second[0]["block_hashes"] == first[0]["block_hashes"][1:]
        assert second[0]["parent_block_hash"] == first[0]["block_hashes"][0]
        assert sorted(engine.cache().values()) == [1, 2]
        assert cached(complete(engine, tokens(65))) == 64


def test_generated_blocks_are_stored_when_their_last_token_was_computed():
    with engine_with_events() as engine:
        complete(engine, tokens(31), max_tokens=1, ignore_eos=True)
        assert replay(engine.replay[0]) == []  # the 32nd token was made, not computed
        complete(engine, tokens(31, 7), max_tokens=2, ignore_eos=True)
        assert len(replay(engine.replay[0])) == 1


def test_an_index_by_counting_predicts_every_reported_hit_with_evictions():
    rng = random.Random(1)
    with engine_with_events("--num-gpu-blocks-override", 40, "--max-num-seqs", 4) as engine:
        index = Index()
        hits = removed = 0
        stems = [tokens(rng.randrange(20, 200), rng.randrange(250)) for _ in range(12)]
        for _ in range(300):
            stem = rng.choice(stems)
            prompt = stem[:rng.randrange(1, len(stem) + 1)] + tokens(
                rng.choice([0, 0, 5, 40]), rng.randrange(250))
            # A hit is decided when the prompt is scheduled; nothing else runs meanwhile.
            want = index.cached_tokens(prompt, 32)
            assert cached(complete(engine, prompt, rng.choice([1, 3, 40]), ignore_eos=True)) == want
            batches = replay(engine.replay[0], index.next_sequence)
            index.apply(batches)
            hits += want > 0
            removed += sum(e["type"] == "BlockRemoved" for b in batches for e in b.events())
        assert hits > 50 and removed > 100
        assert index.held() == engine.cache()
        total = engine.metric("prefix_cache_hits_total")
        assert total == engine.metric("prompt_tokens_cached_total") > 0


def test_the_count_holds_after_parallel_load():
    rng = random.Random(2)
    with engine_with_events("--num-gpu-blocks-override", 60, "--max-num-seqs", 8) as engine:
        prompts = [tokens(rng.choice([32, 64, 65, 96]), rng.randrange(6)) for _ in range(64)]
        threads = [threading.Thread(target=complete, args=(engine, p, 40), kwargs={
            "ignore_eos": True}) for p in prompts]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        index = Index()
        index.apply(replay(engine.replay[0]))
        assert index.held() == engine.cache()
        assert max(index.copies.values()) > 1  # equal answers in parallel store copies
        assert engine.metric("num_requests_running") == 0


def test_a_reset_is_told_with_the_next_step():
    with engine_with_events("--dev-mode") as engine:
        complete(engine, tokens(40))
        assert engine.post("/reset_prefix_cache").json() == {"success": True}
        assert len(replay(engine.replay[0])) == 1
        assert cached(complete(engine, tokens(40))) == 0
        events = replay(engine.replay[0], 1)[0].events()
        assert [e["type"] for e in events] == ["AllBlocksCleared", "BlockStored"]


def test_a_busy_engine_refuses_a_reset_unless_it_may_preempt():
    with engine_with_events("--dev-mode", "--decode-us-per-token", 2000) as engine:
        with engine.client() as client:
            body = json.dumps({"prompt": tokens(40), "max_tokens": 400, "ignore_eos": True,
                               "stream": True}).encode()
            client.send(b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
                        b"Content-Length: %d\r\n\r\n" % len(body) + body)
            client.read_until(b"data: ")
            assert engine.post("/reset_prefix_cache").json() == {"success": False}
            path = "/reset_prefix_cache?reset_running_requests=true"
            assert engine.post(path).json() == {"success": True}
            client.read_until(b"data: [DONE]")  # it was computed again and went on
        assert engine.metric("num_preemptions_total") == 1


def test_arrays_are_those_of_an_old_engine():
    with engine_with_events("--event-encoding", "array", "--hash-form", "bytes",
                            topic="kv") as engine:
        complete(engine, tokens(40), cache_salt="tenant")
        complete(engine, tokens(40, 9))
        batches = replay(engine.replay[0])
        assert [b.topic for b in batches] == [None, None]  # no topic frame in replay
        salted, plain = [b.decoded[1][0] for b in batches]
        assert len(salted) == len(plain) == 9 and salted[0] == "BlockStored"
        assert salted[8] == [["tenant"]] and plain[8] is None
        assert isinstance(salted[1][0], bytes) and len(salted[1][0]) == 32


def hashes(env, *flags, **body):
    with engine_with_events("--hash-form", "bytes", *flags, env=env) as engine:
        complete(engine, tokens(32), **body)
        return replay(engine.replay[0])[0].events()[0]["block_hashes"]


def test_hash_seed_is_fixed_on_new_engines_and_random_on_old_ones():
    unset = {"PYTHONHASHSEED": "0"}
    assert hashes(unset) == hashes(unset)
    assert hashes(unset) != hashes({"PYTHONHASHSEED": "1"})
    assert hashes(unset) != hashes(unset, "--prefix-caching-hash-algo", "sha256_cbor")
    assert hashes(unset, cache_salt="a") != hashes(unset, cache_salt="b")
    assert hashes({}) == hashes({})
    assert hashes({}, "--event-encoding", "array") != hashes({}, "--event-encoding", "array")


def test_integers_are_the_low_64_bits():
    env = {"PYTHONHASHSEED": "7"}
    whole = hashes(env)[0]
    with engine_with_events(env=env) as engine:
        complete(engine, tokens(32))
        assert replay(engine.replay[0])[0].events()[0]["block_hashes"] == [
            int.from_bytes(whole[-8:], "big")]


def test_adapters_and_sessions_are_named():
    with engine_with_events("--lora-modules", "sql=adapters/sql") as engine:
        complete(engine, tokens(32), model="sql", cache_salt="s", session_id="sess")
        event = replay(engine.replay[0])[0].events()[0]
        assert (event["lora_id"], event["lora_name"]) == (1, "sql")
        assert event["extra_keys"] == [["sql", "s"]] and event["session_id"] == "sess"
        assert cached(complete(engine, tokens(33), model="sql", cache_salt="s")) == 32
        assert cached(complete(engine, tokens(33), model="sql")) == 0
        assert cached(complete(engine, tokens(33))) == 0
        models = {m["id"]: m for m in engine.get("/v1/models").json()["data"]}
        assert models["sql"]["parent"] == "tiny" and models["sql"]["max_model_len"] is None


def test_live_messages_have_topic_sequence_and_payload():
    with engine_with_events(topic="kv@pod") as engine:
        live = Subscriber(engine.pub[0], b"kv@")
        sent = 0

        def one_more():
            nonlocal sent
            complete(engine, tokens(32, sent))
            sent += 1
            return live.next(0.05)

        first = wait_until(one_more, what="a live batch")  # a late joiner misses what came before
        assert first.topic == b"kv@pod" and first.rank == 0
        expected = first.sequence
        while expected + 1 < sent:
            expected += 1
            assert live.next().sequence == expected
        live.close()


def test_replay_keeps_buffer_steps_and_drops_malformed_requests():
    with engine_with_events(buffer_steps=3) as engine:
        for i in range(5):
            complete(engine, tokens(32, i))
        assert [b.sequence for b in replay(engine.replay[0])] == [2, 3, 4]
        assert [b.sequence for b in replay(engine.replay[0], 4)] == [4]
        assert replay(engine.replay[0], 9) == []
        assert replay(engine.replay[0], limit_s=0.3, request=[b"", b"x", b"y"]) is None


def test_discovery_lists_each_rank_as_it_was_configured():
    with engine_with_events("--data-parallel-size", 2, topic="kv") as engine:
        sources = engine.get("/kv_event_sources").json()
        assert sorted(sources) == ["0", "1"]
        assert sources["0"]["endpoint"] == engine.pub[0] != engine.pub[1]
        assert sources["1"]["replay_endpoint"] == engine.replay[1]
        assert sources["0"]["topic"] == "kv"
        for rank in ("0", "1"):
            complete(engine, tokens(32), headers=[("X-data-parallel-rank", rank)])
        for rank in (0, 1):
            (batch,) = replay(engine.replay[rank])
            assert batch.sequence == 0 and batch.rank == rank
        assert engine.metric("prompt_tokens_total", engine="1") == 32
        refused = engine.post("/v1/completions", {"prompt": [1], "max_tokens": 1},
                              [("X-data-parallel-rank", "2")])
        assert refused.status == 400


def test_discovery_can_be_that_of_an_older_engine_or_say_that_events_are_off():
    with start_sim(*FAST, "--no-discovery") as engine:
        assert engine.get("/kv_event_sources").status == 404
    with start_sim(*FAST) as engine:
        assert engine.get("/kv_event_sources").json() == {}
        assert engine.ready["pub"] == engine.ready["replay"] == "-"


def test_engines_on_different_loopback_hosts_share_the_usual_ports():
    with engine_with_events("--host", "127.0.1.1", endpoint="tcp://*:0") as first:
        port = first.pub[0].rsplit(":", 1)[1]
        config = events_config(endpoint=f"tcp://*:{port}")
        with start_sim(*FAST, "--host", "127.0.1.2", "--kv-events-config", config) as second:
            assert first.pub == [f"tcp://127.0.1.1:{port}"]
            assert second.pub == [f"tcp://127.0.1.2:{port}"]
            assert second.get("/kv_event_sources").json()["0"]["endpoint"] == f"tcp://*:{port}"
            assert second.address.startswith("127.0.1.2:")


def test_an_endpoint_without_a_wildcard_connects_out():
    with start_sim(*FAST, "--kv-events-config",
                   events_config(endpoint="tcp://127.0.0.1:1")) as engine:
        assert engine.ready["pub"] == "-"
        assert engine.get("/kv_event_sources").json()["0"]["endpoint"] == "tcp://127.0.0.1:1"


def test_without_prefix_caching_nothing_is_published_though_it_is_listed():
    with engine_with_events("--no-enable-prefix-caching") as engine:
        for _ in range(2):
            assert cached(complete(engine, tokens(64))) == 0
        assert replay(engine.replay[0]) == []
        assert list(engine.get("/kv_event_sources").json()) == ["0"]
        assert 'enable_prefix_caching="False"' in engine.get("/metrics").body.decode()


def test_a_request_may_ask_for_the_reused_prefix_to_be_repeated():
    with engine_with_events() as engine:
        complete(engine, tokens(40))
        complete(engine, tokens(40), vllm_xargs={"kv_cache_report_mode": "full"})
        first, again = [b.events()[0] for b in replay(engine.replay[0])]
        assert first["block_hashes"] == again["block_hashes"]
        assert list(engine.cache().values()) == [1]  # no second copy


@pytest.mark.parametrize("config, text", [
    ("[]", "not a JSON object"),
    ('{"buffer_steps":0}', "positive"),
    ('{"topic":5}', "topic"),
])
def test_a_bad_events_configuration_is_refused_at_start(config, text):
    with pytest.raises(AssertionError, match="(?s)ended with 2.*" + text):
        start_sim("--kv-events-config", config)
