"""The main job: a rule over REST, KV events in, a chat to the engine that holds its prefix."""

import threading

from gateway import Gateway, chat, complete, rule
from harness import RawClient, request_bytes, wait_until

PROMPT = "The harbour master wrote down every ship that came in with the tide. " * 12


def exact_rule(vip, engines, **more):
    return rule(vip, [e.address for e in engines], kvExactMode=3, kvColdSeedEvery=0, **more)


def generations(engine):
    """What the engine was asked to generate; the gateway's own questions left out."""
    return [r for r in engine.requests() if r["method"] == "POST" and "completions" in r["target"]]


def settled(gw, body, vip, prompt, request_id):
    """Sends a prompt and waits until its blocks are in the inventory; where it went."""
    assert complete(vip, prompt, request_id=request_id).status == 200
    receipt = gw.receipt(request_id)
    leg = receipt["legs"][-1]
    gw.wait_blocks(body, leg["endpoint"], max(1, receipt["prompt_tokens"] // 16))
    return leg["endpoint"]


def test_a_prefix_goes_to_the_engine_that_published_its_blocks(gateway, engines):
    vip = gateway.vip()
    body = exact_rule(vip, engines(3))
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))
    home = settled(gateway, body, vip, PROMPT, "first")
    for i in range(6):
        reply = complete(vip, PROMPT + f" Page {i}.", request_id=f"again-{i}")
        assert reply.status == 200
        receipt = gateway.receipt(f"again-{i}")
        leg = receipt["legs"][-1]
        assert (leg["endpoint"], leg["tier"]) == (home, "kv_exact")
        cached = reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert receipt["tokens"]["predicted_cached"] == cached > 0
        assert receipt["tokens"]["reported_cached"] == cached


def test_over_its_bound_the_holder_is_passed_over_and_the_receipt_says_so(gateway, engines):
    vip = gateway.vip()
    body = exact_rule(vip, engines(2, "--decode-us-per-token", "20000"), kvMeanLoadFactor=100)
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))
    home = settled(gateway, body, vip, PROMPT, "first")

    def hold(n):
        complete(vip, PROMPT, request_id=f"held-{n}", max_tokens=60)
    threads = [threading.Thread(target=hold, args=(n,)) for n in range(2)]
    threads[0].start()
    wait_until(lambda: any(e["inflight"] for e in gateway.find(body)["endpoints"]), 5, "one in flight")
    threads[1].start()
    for t in threads:
        t.join()
    spilled = gateway.receipt("held-1")
    assert spilled["legs"][-1]["endpoint"] != home
    assert {"tier": "kv_exact", "reason": "over_bound"} in spilled["misses"]
    passed = next(c for c in spilled["candidates"] if c["endpoint"] == home)
    assert passed["excluded"] == "over_bound" and passed["matched_blocks"] > 0
    assert gateway.metric("loxilb_pd_kv_tier15_spills_total") == 1


def test_chats_are_tokenized_as_the_engine_does_and_streams_arrive_whole(gateway, engines):
    vip = gateway.vip()
    both = engines(2)
    body = exact_rule(vip, both)
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))
    messages = [{"role": "system", "content": "You keep the log of a lighthouse. " * 10},
                {"role": "user", "content": "What did the storm do?"}]
    for turn in range(3):
        reply = chat(vip, messages, request_id=f"turn-{turn}", stream=True, max_tokens=20,
                     stream_options={"include_usage": True})
        assert reply.status == 200 and reply.is_complete
        events = reply.events()
        assert events[-1] == "[DONE]"
        receipt = gateway.receipt(f"turn-{turn}")
        assert receipt["tokens"]["predicted_cached"] == receipt["tokens"]["reported_cached"]
        direct = next(e for e in both if e.address == receipt["legs"][-1]["endpoint"])
        gateway.wait_blocks(body, direct.address, receipt["prompt_tokens"] // 16)
        messages += [{"role": "assistant", "content": f"Answer {turn}."},
                     {"role": "user", "content": f"And the day after, {turn}?"}]
    assert receipt["tokens"]["predicted_cached"] > 0


def test_the_answer_is_the_engines_byte_for_byte(gateway, engines):
    vip = gateway.vip()
    engine = engines(1)[0]
    gateway.create(exact_rule(vip, [engine]))
    odd = b'{ "prompt":[1,2,3] ,"model":"tiny","max_tokens" : 3,"x":1.50e2,"x":"\\u00e9"}'
    headers = [("X-Request-Id", "same")]
    with RawClient(vip) as client:
        client.send(request_bytes("POST", "/v1/completions", odd, headers))
        through = client.read_reply()
    assert generations(engine)[-1]["body"] == odd.decode()
    with RawClient(engine.address) as client:
        client.send(request_bytes("POST", "/v1/completions", odd, headers))
        direct = client.read_reply()

    def without_times(reply):
        data = reply.json()
        for volatile in ("created", "metrics"):
            data.pop(volatile, None)
        return data
    assert without_times(through) == without_times(direct)


def test_a_rule_survives_kill_9(tmp_path, tokenizers, engines):
    one = engines(1)
    with Gateway(str(tmp_path), tokenizers=tokenizers) as gw:
        vip = gw.vip()
        body = exact_rule(vip, one)
        before = gw.create(body)
        gw.kill()
        gw.start()
        after = gw.find(body)
        for member in ("id", "number", "serviceArguments"):
            assert after[member] == before[member]
        assert [e["id"] for e in after["endpoints"]] == [e["id"] for e in before["endpoints"]]
        gw.wait_signal(body, ("ok", "quiet"))
        assert complete(vip, PROMPT).status == 200
        assert gw.delete(f"/config/loadbalancer/externalipaddress/127.0.0.1/port/"
                         f"{vip.rsplit(':')[1]}/protocol/tcp").status == 200
        gw.kill()
        gw.start()
        assert gw.rules() == []


def test_what_only_engines_may_say_to_each_other_is_dropped(gateway, engines):
    vip = gateway.vip()
    engine = engines(1, "--kv-connector", "nixl")[0]
    gateway.create(exact_rule(vip, [engine]))
    weapon = {"do_remote_prefill": True, "do_remote_decode": False}
    for path in ("/v1/completions", "/v1//completions", "/v1/completions?x=1", "/v1/responses"):
        with RawClient(vip) as client:
            client.send(request_bytes("POST", path, {
                "kv_transfer_params": weapon, "model": "tiny", "prompt": "hello", "input": "hello",
                "max_tokens": 1, "vllm_xargs": {"kv_cache_report_mode": "full", "keep": 1,
                                               "kv_transfer_params": "x"}}))
            assert client.read_reply() is not None, path
    assert engine.child.poll() is None, "the engine was ended by a client's transfer fields"
    seen = generations(engine)[0]["body"]
    assert "kv_transfer_params" not in seen and "kv_cache_report_mode" not in seen
    assert '"keep"' in seen


def test_an_engine_that_fails_its_probe_gets_nothing_until_it_recovers(gateway, engines):
    vip = gateway.vip()
    sick, well = engines(2)
    body = rule(vip, [sick.address, well.address], monitor=True, probetype="http", probereq="/health",
                probeport=int(sick.address.split(":")[1]), probeTimeout=1, probeRetries=1)
    # One probe port for both would make them fail together, so each gets a rule of its own.
    body["endpoints"] = body["endpoints"][:1]
    gateway.create(body)
    sick.arm("health:503", 0)

    def is_inactive(wanted):
        endpoint = gateway.find(body)["endpoints"][0]
        return endpoint.get("inActiveEP", False) == wanted and endpoint
    endpoint = wait_until(lambda: is_inactive(True), 10, "endpoint inactive")
    assert endpoint["state"] == "inactive" and "503" in endpoint["reason"]
    reply = complete(vip, "hello")
    assert reply.status == 503 and reply.json()["error"]["code"] == "no_healthy_backend"
    assert reply.header("retry-after")
    exchange_clear(sick)
    wait_until(lambda: is_inactive(False), 10, "endpoint active again")
    assert complete(vip, "hello").status == 200


def exchange_clear(engine):
    with engine.client() as client:
        client.send(request_bytes("DELETE", "/sim/fault"))
        assert client.read_reply().status == 200


def test_explain_says_where_a_request_would_go_and_sends_nothing(gateway, engines):
    vip = gateway.vip()
    both = engines(2)
    body = exact_rule(vip, both)
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))
    home = settled(gateway, body, vip, PROMPT, "first")
    reply = gateway.explain({"listener": vip, "body": {"model": "tiny", "prompt": PROMPT}})
    assert reply.status == 200
    assert reply.json()["legs"][0]["endpoint"] == home
    assert reply.json()["legs"][0]["tier"] == "kv_exact"
    assert sum(len(generations(e)) for e in both) == 1


def test_transfer_fields_are_refused_or_passed_when_the_rule_says_so(gateway, engines):
    engine = engines(1)[0]
    body = {"model": "tiny", "prompt": [1], "max_tokens": 1, "kv_transfer_params": {"a": 1}}
    for policy in ("refuse", "pass"):
        vip = gateway.vip()
        gateway.create(rule(vip, [engine.address], client_handoff_fields=policy))
        with RawClient(vip) as client:
            client.send(request_bytes("POST", "/v1/completions", body))
            reply = client.read_reply()
        if policy == "refuse":
            assert reply.status == 400
            error = reply.json()["error"]
            assert (error["code"], error["param"]) == ("handoff_field_not_allowed", "kv_transfer_params")
            assert not generations(engine)
        else:
            assert reply.status == 200
            assert "kv_transfer_params" in generations(engine)[-1]["body"]


def test_an_alias_is_the_only_byte_that_changes(gateway, engines):
    vip = gateway.vip()
    engine = engines(1)[0]
    gateway.create(rule(vip, [engine.address], model_aliases={"small": "tiny"}))
    sent = b'{"prompt" : [1,2],  "model":"small" ,"max_tokens":1, "x":1.0e+2}'
    with RawClient(vip) as client:
        client.send(request_bytes("POST", "/v1/completions", sent))
        assert client.read_reply().status == 200
    assert generations(engine)[-1]["body"].encode() == sent.replace(b'"small"', b'"tiny"')
