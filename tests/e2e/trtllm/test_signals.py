"""What can be wrong with an engine's events: each provoked, and named with the setting to change."""

import threading

import pytest

from gateway import complete
from harness import wait_until

from world import (BLOCK, PROMPT, ask, assert_exact, assert_lone_reader, endpoint_of, kv_of, settled,
                   trt_rule, wait_kv)


def start(gateway, pool, **fields):
    vip = gateway.vip()
    body = trt_rule(vip, pool, **fields)
    gateway.create(body)
    return vip, body


def burst(engine, seed, prompts=40):
    """Many prompts in one iteration: more events than a small ring holds."""
    lists = [[(seed * 31 + n * 7 + i) % 500 for i in range(2 * BLOCK + 1)] for n in range(prompts)]
    reply = engine.post("/v1/completions", {"model": "tiny", "prompt": lists, "max_tokens": 1})
    assert reply.status == 200, reply.body


def candidates(words):
    return set(words.get("reason", "").split(","))


def test_ring_overflow_is_named_with_its_setting(gateway, engines):
    (engine,) = engines(1, "--event-buffer-max-size", 16, "--max-batch-size", 64,
                        "--max-num-tokens", 65536)
    vip, body = start(gateway, [engine])
    gateway.wait_signal(body, ("ok", "quiet"))

    def named():
        named.n += 1
        burst(engine, named.n)
        assert engine.drains()["overflowed"] > 0
        return kv_of(gateway, body, engine).get("reason") == "ring_overflow"
    named.n = 0
    wait_until(named, 30, "ring_overflow")
    words = kv_of(gateway, body, engine)
    assert words["signal"] == "doubtful"
    assert "event_buffer_max_size" in words["advice"]
    assert_lone_reader(engine)
    # Doubt does not stop plain traffic.
    assert complete(vip, PROMPT).status == 200


def test_second_consumer_is_named_and_heals_when_it_is_gone(gateway, engines):
    (engine,) = engines(1)
    vip, body = start(gateway, [engine])
    gateway.wait_signal(body, ("ok", "quiet"))
    ends = threading.Event()

    def steal():
        while not ends.is_set():
            engine.post("/kv_cache_events")  # 409 when the gateway's is running
    thieves = [threading.Thread(target=steal) for _ in range(2)]
    for t in thieves:
        t.start()

    def named():
        named.n += 1
        complete(engine.address, f"{named.n} words of its own. " + PROMPT, max_tokens=20)
        return kv_of(gateway, body, engine)["signal"] == "stolen"
    named.n = 0
    try:
        wait_until(named, 60, "stolen")
    finally:
        ends.set()
        for t in thieves:
            t.join()
    words = kv_of(gateway, body, engine)
    assert words["reason"] == "second_consumer"
    assert "kv_cache_events" in words["advice"] + words["detail"]
    assert gateway.metric("loxilb_ai_kv_trtllm_drain_ownership_fault_total") >= 1
    # Traffic goes on, without regard to what is not believed.
    reply = complete(vip, PROMPT, request_id="while-stolen")
    assert reply.status == 200
    assert gateway.receipt("while-stolen")["legs"][-1]["tier"] != "kv_exact"

    def healed():
        healed.n += 1
        complete(engine.address, f"{healed.n} after it left. " + PROMPT, max_tokens=20)
        return kv_of(gateway, body, engine)["signal"] in ("ok", "quiet")
    healed.n = 0
    wait_until(healed, 60, "healed")


@pytest.mark.parametrize("flags, setting", [
    (("--event-buffer-max-size", 0), "event_buffer_max_size"),
    (("--era", "main", "--kv-events-config", '{"enable_kv_cache_events":true}'), "kv_events_config"),
], ids=["buffer_off", "published_elsewhere"])
def test_events_empty_when_cached_tokens_are_reported_and_no_events_come(gateway, engines, flags,
                                                                         setting):
    (engine,) = engines(1, *flags)
    vip, body = start(gateway, [engine])

    def named():
        named.n += 1
        complete(vip, PROMPT + f" Page {named.n}.")
        return kv_of(gateway, body, engine).get("reason") == "events_empty"
    named.n = 0
    wait_until(named, 30, "events_empty")
    words = kv_of(gateway, body, engine)
    assert words["signal"] == "dead"
    assert setting in words["advice"]
    assert gateway.metric("loxilb_kv_inventory_fresh") == 0
    assert_lone_reader(engine)


def test_reuse_off_when_repeats_report_nothing_cached(gateway, engines):
    (engine,) = engines(1, "--no-enable-block-reuse")
    vip, body = start(gateway, [engine])

    def named():
        complete(vip, PROMPT)
        return kv_of(gateway, body, engine).get("reason") == "reuse_off"
    wait_until(named, 30, "reuse_off")
    words = kv_of(gateway, body, engine)
    assert words["signal"] == "dead"
    assert "enable_block_reuse" in words["advice"]


def test_where_the_wire_cannot_tell_both_causes_are_listed(gateway, engines):
    (engine,) = engines(1, "--era", "1.0", "--event-buffer-max-size", 0, "--drain-tail-ms", 200)
    vip, body = start(gateway, [engine])

    def named():
        complete(vip, PROMPT)
        return candidates(kv_of(gateway, body, engine)) == {"events_empty", "reuse_off"}
    wait_until(named, 40, "both candidates")
    words = kv_of(gateway, body, engine)
    assert "event_buffer_max_size" in words["advice"] and "enable_block_reuse" in words["advice"]


@pytest.mark.parametrize("bad, good, reason", [
    (("--tokens-per-block", 64), ("--tokens-per-block", BLOCK), "block_size"),
    (("--manager", "v2", "--hash-algo", "v2_sha256"), ("--hash-algo", "v1_block_key"), "hash_algo"),
], ids=["block_size", "hash_algo"])
def test_a_refused_engine_serves_and_is_admitted_once_it_agrees(gateway, engines, bad, good, reason):
    (engine,) = engines(1, *bad)
    vip, body = start(gateway, [engine], kvBlockSize=BLOCK)
    words = wait_kv(gateway, body, engine, signal="refused", reason=reason)
    assert words["detail"] and words["advice"]
    assert engine.drains()["count"] == 0
    ask(gateway, vip, PROMPT, "plain")
    reply, receipt = ask(gateway, vip, PROMPT, "again")
    assert receipt["legs"][-1]["tier"] != "kv_exact"
    # Another build at the same address is asked anew.
    engine.restart(*good, "--era", "main")
    wait_kv(gateway, body, engine, signal=("ok", "quiet"))
    ask(gateway, vip, PROMPT, "fresh")
    settled(gateway, body, engine)
    reply, receipt = ask(gateway, vip, PROMPT, "known")
    assert_exact(reply, receipt, at_least=10 * BLOCK)
    assert_lone_reader(engine)


def test_events_of_a_foreign_hash_are_not_indexed_and_ask_for_admission(gateway, engines):
    (engine,) = engines(1)
    vip, body = start(gateway, [engine])
    ask(gateway, vip, PROMPT, "first")
    settled(gateway, body, engine)
    asked = sum(r["target"] == "/server_info" for r in engine.requests())
    engine.add_events({"event_id": 1 << 40, "window_size": 4096, "hash_algo": "v2_sha256",
                       "layer_group_id": 0, "data": {
                           "type": "stored", "parent_hash": None, "blocks": [{
                               "type": "stored_block", "block_hash": "ab" * 32, "cache_level": 0,
                               "priority": 35, "mm_keys": [], "cache_salt": None,
                               "tokens": [{"type": "unique_token", "token_id": i,
                                           "token_extra_id": 0} for i in range(BLOCK)]}]}})
    wait_kv(gateway, body, engine, signal="refused", reason="hash_algo")
    assert kv_of(gateway, body, engine)["blocks"] == 0
    assert sum(r["target"] == "/server_info" for r in engine.requests()) >= asked
    assert complete(vip, PROMPT).status == 200


def test_a_block_size_that_only_events_show_is_taken_or_refused(gateway, engines):
    """The engine says 32 and uses 16: followed where the rule declares nothing, else refused."""
    free, held = engines(2, "--configured-tokens-per-block", 32)
    vip, body = start(gateway, [free])
    ask(gateway, vip, PROMPT, "first")
    settled(gateway, body, free)
    ask(gateway, vip, "Another. " + PROMPT, "second")
    settled(gateway, body, free)
    reply, receipt = ask(gateway, vip, "Another. " + PROMPT, "known")
    assert_exact(reply, receipt, at_least=BLOCK)
    other_vip, other = start(gateway, [held], kvBlockSize=32)
    assert complete(other_vip, PROMPT).status == 200
    wait_kv(gateway, other, held, signal="refused", reason="block_size")
    assert complete(other_vip, PROMPT).status == 200


def test_a_restart_is_seen_by_its_numbers_and_old_blocks_are_dropped(gateway, engines):
    (engine,) = engines(1)
    vip, body = start(gateway, [engine])
    for i in range(3):
        ask(gateway, vip, f"{i} " + PROMPT, f"before-{i}")
    before = settled(gateway, body, engine)
    engine.restart()
    wait_until(lambda: complete(vip, "A new day. " + PROMPT).status == 200, 20, "served again")
    after = settled(gateway, body, engine)
    assert 0 < after < before
    reply, receipt = ask(gateway, vip, "A new day. " + PROMPT, "known")
    assert_exact(reply, receipt, at_least=10 * BLOCK)


def test_an_idle_restarted_engine_is_emptied_without_waiting_for_created(gateway, engines):
    (engine,) = engines(1)
    vip, body = start(gateway, [engine])
    ask(gateway, vip, PROMPT, "before")
    settled(gateway, body, engine)
    engine.restart(while_down=lambda: wait_kv(gateway, body, engine, reason="unreachable"))
    wait_until(lambda: kv_of(gateway, body, engine)["blocks"] == 0, 20, "emptied")
    wait_kv(gateway, body, engine, signal=("ok", "quiet"))


def test_a_late_join_knows_only_what_is_stored_from_then_on(gateway, engines):
    (engine,) = engines(1)
    assert complete(engine.address, PROMPT).status == 200
    assert engine.drain()[-1]["event_id"] > 0  # an earlier reader took them
    vip, body = start(gateway, [engine])
    gateway.wait_signal(body, ("ok", "quiet"))
    reply, receipt = ask(gateway, vip, PROMPT, "old")
    assert (receipt["tokens"]["predicted_cached"] or 0) == 0
    ask(gateway, vip, "Of today. " + PROMPT, "new")
    wait_until(lambda: kv_of(gateway, body, engine)["blocks"] > 10, 10, "the new ones")
    reply, receipt = ask(gateway, vip, "Of today. " + PROMPT, "known")
    assert_exact(reply, receipt, at_least=10 * BLOCK)


def test_an_orphan_whose_parent_is_unknown_is_not_matched(gateway, engines):
    (engine,) = engines(1)
    assert complete(engine.address, PROMPT).status == 200
    engine.drain()
    vip, body = start(gateway, [engine])
    gateway.wait_signal(body, ("ok", "quiet"))
    # Only the continuation is announced; what it hangs on was stored before anybody listened.
    longer = PROMPT + "And this was added on the next day by another hand. " * 4
    ask(gateway, vip, longer, "longer")
    reply, receipt = ask(gateway, vip, longer, "again")
    assert (receipt["tokens"]["predicted_cached"] or 0) == 0
    assert receipt["legs"][-1]["tier"] != "kv_exact"


def test_ranks_are_kept_apart_and_both_are_followed(gateway, engines):
    (engine,) = engines(1, "--dp-size", 2)
    vip, body = start(gateway, [engine])
    for i in range(6):
        assert complete(vip, f"{i // 2} " + PROMPT).status == 200
    assert min(len(engine.cache(0)), len(engine.cache(1))) > 10
    settled(gateway, body, engine, rank_count=2)
    words = kv_of(gateway, body, engine)
    assert words["signal"] in ("ok", "quiet") and words.get("reason", "") == ""
    assert_lone_reader(engine)
    held = kv_of(gateway, body, engine)["blocks"]
    engine.skip_ids(2, rank=1)
    for i in range(2):
        complete(vip, f"{i} beyond the gap. " + PROMPT)
    # One rank's gap leaves the other's blocks.
    wait_until(lambda: kv_of(gateway, body, engine)["blocks"] != held, 10, "the gap")
    assert kv_of(gateway, body, engine)["blocks"] >= len(engine.cache(0))


@pytest.mark.parametrize("flags", [
    ("--windows", "128,4096"),
    ("--windows", "4096,128"),
    ("--manager", "v2", "--windows", "128,4096"),
    ("--manager", "v2", "--windows", "4096,4096"),
])
def test_the_largest_window_is_followed(gateway, engines, flags):
    (engine,) = engines(1, *flags, "--blocks", 256)
    vip, body = start(gateway, [engine])
    for i in range(20):
        assert complete(vip, f"{i} " + PROMPT).status == 200
    settled(gateway, body, engine)
    reply, receipt = ask(gateway, vip, "19 " + PROMPT, "known")
    assert_exact(reply, receipt, at_least=10 * BLOCK)


@pytest.mark.parametrize("flags", [("--blocks", 64), ("--blocks", 64, "--host-blocks", 64)],
                         ids=["evicted", "offloaded"])
def test_evictions_are_followed(gateway, engines, flags):
    (engine,) = engines(1, *flags, "--max-seq-len", 1024)
    vip, body = start(gateway, [engine])
    for i in range(12):
        reply, receipt = ask(gateway, vip, f"{i % 5} " + PROMPT, f"turn-{i}")
        assert_exact(reply, receipt)
        wait_until(lambda: endpoint_of(gateway, body, engine)["inflight"] == 0, 5, "idle")
        wait_until(lambda: kv_of(gateway, body, engine)["blocks"] ==
                   sum(level == 0 for level in engine.cache().values()) or
                   kv_of(gateway, body, engine)["blocks"] == len(engine.cache()), 10, "followed")
