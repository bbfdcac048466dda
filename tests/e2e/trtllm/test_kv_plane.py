"""The event plane over a single pool: subscribers, admission, ingest, gap, and ingest after it."""

from gateway import API, complete
from harness import exchange, wait_until

from world import (BLOCK, PROMPT, ask, assert_exact, assert_lone_reader, endpoint_of, kv_of, settled,
                   trt_rule, wait_kv)


def inventory(gateway, body, engine):
    """The inventory route's answer for one endpoint."""
    read_back = gateway.find(body)
    ep_idx = endpoint_of(gateway, body, engine)["ep_idx"]
    path = f"{API}/config/ai/kv/inventory?service_id={read_back['number']}&ep_idx={ep_idx}"
    reply = exchange(gateway.api, "GET", path)
    assert reply.status == 200, reply.body
    return reply.json()


def start(gateway, engines, *flags, count=2, **fields):
    pool = engines(count, *flags)
    vip = gateway.vip()
    body = trt_rule(vip, pool, **fields)
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))
    return pool, vip, body


def fill(gateway, vip, body, pool):
    """Prompts until both engines hold blocks and the inventories are their caches."""
    for i in range(4):
        assert complete(vip, f"Log {i}, of the year {i * 7}. " + PROMPT).status == 200
    for engine in pool:
        settled(gateway, body, engine)


def test_two_subscribers_one_for_each_endpoint(gateway, engines):
    pool, _, body = start(gateway, engines)
    number = str(gateway.find(body)["number"])
    wait_until(lambda: gateway.metric("loxilb_kv_subscriber_connected", service=number) == 2, 10,
               "two subscribers")
    for engine in pool:
        wait_until(lambda engine=engine: engine.drains()["count"] > 5, 10, "drains of each")
        assert_lone_reader(engine)


def test_admission_is_told_and_refuses_another_block_size(gateway, engines):
    good, bad = engines(1)[0], engines(1, "--tokens-per-block", 64)[0]
    vip = gateway.vip()
    body = trt_rule(vip, [good, bad], kvBlockSize=BLOCK)
    gateway.create(body)
    wait_kv(gateway, body, good, signal=("ok", "quiet"))
    words = wait_kv(gateway, body, bad, signal="refused", reason="block_size")
    assert "64" in words["detail"] and str(BLOCK) in words["detail"]
    assert inventory(gateway, body, good)["admission"] == "admitted"
    assert inventory(gateway, body, bad)["admission"].startswith("refused: ")
    assert bad.drains()["count"] == 0
    # It is no reason to leave it out of plain traffic.
    for i in range(8):
        assert complete(vip, f"{i} of eight", request_id=f"plain-{i}").status == 200
    served = {gateway.receipt(f"plain-{i}")["legs"][-1]["endpoint"] for i in range(8)}
    assert served == {good.address, bad.address}


def test_a_build_without_server_info_is_admitted_with_a_note(gateway, engines):
    (engine,) = engines(1, "--era", "1.1", "--drain-tail-ms", 1000)
    vip = gateway.vip()
    body = trt_rule(vip, [engine])
    gateway.create(body)
    assert complete(vip, PROMPT).status == 200
    wait_kv(gateway, body, engine, signal=("ok", "quiet"), reason="legacy")
    assert inventory(gateway, body, engine)["admission"].startswith("admitted (legacy engine: ")


def test_stored_blocks_are_taken_in_and_route(gateway, engines):
    pool, vip, body = start(gateway, engines)
    first, receipt = ask(gateway, vip, PROMPT, "first")
    home = next(e for e in pool if e.address == receipt["legs"][-1]["endpoint"])
    assert settled(gateway, body, home) >= (receipt["prompt_tokens"] - 1) // BLOCK > 10
    assert inventory(gateway, body, home)["total"] == len(home.cache())
    for i in range(4):
        reply, receipt = ask(gateway, vip, PROMPT + f" Page {i}.", f"again-{i}", stream=i % 2 == 1,
                             **({"stream_options": {"include_usage": True}} if i % 2 else {}))
        assert (receipt["legs"][-1]["endpoint"], receipt["legs"][-1]["tier"]) == (
            home.address, "kv_exact")
        assert_exact(reply, receipt, at_least=10 * BLOCK)


def test_a_gap_of_event_numbers_empties_that_endpoint_alone(gateway, engines):
    pool, vip, body = start(gateway, engines, kvLbMode="off")
    fill(gateway, vip, body, pool)
    hit, other = pool
    if not kv_of(gateway, body, hit)["blocks"]:
        hit, other = other, hit
    held = kv_of(gateway, body, other)["blocks"]
    hit.skip_ids(3)
    fresh = complete(hit.address, "A prompt nobody had before: " + "tide and time. " * 20)
    assert fresh.status == 200
    # Only what was stored after the gap is believed; the engine's older blocks are not.
    wait_until(lambda: 0 < kv_of(gateway, body, hit)["blocks"] < len(hit.cache()), 10, "the gap")
    assert kv_of(gateway, body, other)["blocks"] == held


def test_what_is_stored_after_a_gap_is_taken_in_again(gateway, engines):
    pool, vip, body = start(gateway, engines, count=1)
    (engine,) = pool
    ask(gateway, vip, PROMPT, "before")
    settled(gateway, body, engine)
    engine.skip_ids(1)
    ask(gateway, vip, "After the gap. " + PROMPT, "gap")
    wait_until(lambda: 0 < kv_of(gateway, body, engine)["blocks"] < len(engine.cache()), 10,
               "the gap")
    engine.post("/sim/reset")
    settled(gateway, body, engine)
    ask(gateway, vip, PROMPT, "anew")
    assert settled(gateway, body, engine) > 10
    reply, receipt = ask(gateway, vip, PROMPT, "known")
    assert_exact(reply, receipt, at_least=10 * BLOCK)
    assert_lone_reader(engine)
