"""Edits and the selectors: turns go on where they were, counts are kept."""

from conftest import edited, row
from gateway import chat, complete, rule
from harness import RawClient, request_bytes, wait_until


def went_to(gateway, vip, name):
    assert complete(vip, "x", request_id=name, max_tokens=1).status == 200
    return gateway.receipt(name)["legs"][-1]["endpoint"]


def test_round_robin_goes_on_with_the_turn_it_was_at(gateway, engines):
    three = [e.address for e in engines(3)]
    vip = gateway.vip()
    body = rule(vip, three)
    gateway.create(body)
    seen = []
    for n in range(12):
        # An edit between any two requests.
        gateway.create(edited(body, name=f"edit-{n}", timeouts={"connect_ms": 1000 + n}))
        seen.append(went_to(gateway, vip, f"turn-{n}"))
    assert seen == seen[:3] * 4
    assert set(seen) == set(three)


def test_weighted_turns_go_on_and_follow_new_weights(gateway, engines):
    one, two = (e.address for e in engines(2))
    vip = gateway.vip()
    body = rule(vip, [], sel=2)
    body["endpoints"] = [row(one, 3), row(two, 1)]
    gateway.create(body)
    seen = []
    for n in range(8):
        gateway.create(edited(body, name=f"edit-{n}"))
        seen.append(went_to(gateway, vip, f"w-{n}"))
    assert seen.count(one) == 6 and seen.count(two) == 2
    gateway.create(edited(body, [row(one, 1), row(two, 1)]))
    seen = [went_to(gateway, vip, f"even-{n}") for n in range(8)]
    assert seen.count(one) == 4
    gateway.create(edited(body, [row(one, 0), row(two, 1)]))
    assert {went_to(gateway, vip, f"drain-{n}") for n in range(4)} == {two}


def test_least_connections_knows_what_runs_after_an_edit(gateway, engines, ends):
    busy, idle = engines(2, "--decode-us-per-token", 15_000)
    vip = gateway.vip()
    body = rule(vip, [busy.address], sel=4)
    gateway.create(body)
    streams = [ends.enter_context(RawClient(vip, limit_s=60)) for _ in range(3)]
    for i, client in enumerate(streams):
        client.send(request_bytes("POST", "/v1/chat/completions",
                                  {"model": "tiny", "stream": True, "max_tokens": 400,
                                   "ignore_eos": True,
                                   "messages": [{"role": "user", "content": f"run {i}"}]}))
        assert client.read_until(b"data: ") is not None
    gateway.create(edited(body, [row(busy.address), row(idle.address)]))
    for n in range(4):
        assert went_to(gateway, vip, f"lc-{n}") == idle.address
        candidates = gateway.receipt(f"lc-{n}")["candidates"]
        assert next(c for c in candidates if c["endpoint"] == busy.address)["inflight"] == 3
    for client in streams:
        client.close()
    wait_until(lambda: busy.metric("num_requests_running") == 0, 10, "engine idle")


def test_a_backup_serves_only_while_every_primary_is_out(gateway, engines):
    primary, other, backup = engines(3)
    vip = gateway.vip()
    body = rule(vip, [primary.address, other.address, (backup.address, {"backup": True})])
    gateway.create(body)
    seen = {went_to(gateway, vip, f"well-{n}") for n in range(6)}
    assert seen == {primary.address, other.address}
    standby = next(c for c in gateway.receipt("well-0")["candidates"]
                   if c["endpoint"] == backup.address)
    assert standby["excluded"] == "standby" and not standby["eligible"]
    primary.kill()
    assert {went_to(gateway, vip, f"one-{n}") for n in range(4)} == {other.address}
    gateway.create(edited(body, [row(primary.address), row(other.address, 0),
                                 row(backup.address, backup=True)]))
    assert {went_to(gateway, vip, f"none-{n}") for n in range(3)} == {backup.address}
    # An edit makes a backup of a primary, and a primary of a backup.
    gateway.create(edited(body, [row(other.address, backup=True), row(backup.address)]))
    assert {went_to(gateway, vip, f"turned-{n}") for n in range(3)} == {backup.address}


def test_a_backup_stays_out_of_kv_routing_until_it_is_needed(gateway, site):
    two = site(2)
    vip = gateway.vip()
    prompt = "The lamp is lit at dusk and put out at dawn, every day of the year. " * 8
    body = two.rule(vip, [0, 1])
    body["endpoints"][0]["weight"] = 0
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))
    assert complete(vip, prompt, request_id="fill").status == 200
    holder = two.http[1].address
    gateway.wait_blocks(body, holder, gateway.receipt("fill")["prompt_tokens"] // 16)
    gateway.create(edited(body, [row(two.http[0].address), row(holder, backup=True)]))
    assert complete(vip, prompt, request_id="held-back").status == 200
    receipt = gateway.receipt("held-back")
    assert receipt["legs"][-1]["endpoint"] == two.http[0].address
    passed = next(c for c in receipt["candidates"] if c["endpoint"] == holder)
    assert passed["excluded"] == "standby" and passed["matched_blocks"] > 0
    gateway.create(edited(body, [row(two.http[0].address, 0), row(holder, backup=True)]))
    assert complete(vip, prompt, request_id="needed").status == 200
    leg = gateway.receipt("needed")["legs"][-1]
    assert (leg["endpoint"], leg["tier"]) == (holder, "kv_exact")


def test_a_full_primary_is_answered_for_itself_not_by_its_backup(gateway, engines):
    primary, backup = engines(2)
    vip = gateway.vip()
    body = rule(vip, [primary.address, (backup.address, {"backup": True})], kvEngineType="vllm")
    gateway.create(body)
    primary.arm("status:429", 0)
    assert chat(vip, [{"role": "user", "content": "x"}], request_id="full").status == 429
    assert gateway.receipt("full")["legs"][-1]["endpoint"] == primary.address
    with primary.client() as client:
        client.send(request_bytes("DELETE", "/sim/fault"))
        assert client.read_reply().status == 200
    primary.arm("draining", 0)
    assert chat(vip, [{"role": "user", "content": "x"}], request_id="draining").status == 200
    assert gateway.receipt("draining")["legs"][-1]["endpoint"] == backup.address
