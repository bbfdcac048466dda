"""Two gateways in front of the same engines: the second follows what the first publishes."""

from conftest import TEXT, Pair, endpoint_kv
from gateway import complete
from harness import MINI_TOKENIZER, events_config, start_sim, wait_until


def by_address(engines):
    return {e.address: e for e in engines}


def test_both_route_alike_and_predict_what_the_engine_finds(start_gateway, engine):
    engines = by_address([engine("--num-gpu-blocks-override", 600, "--max-model-len", 4000)
                          for _ in range(3)])
    pair = Pair(start_gateway, list(engines))
    pair.join()
    for gateway, body in pair.sides():
        gateway.wait_signal(body, ("ok", "quiet"))
    matched = 0
    for i in range(200):
        # Forty conversations, each with five turns.
        prompt = f"Ship {i % 40}. " + TEXT + "And then the next one. " * (i // 40 * 4)
        vip, here, there = ((pair.first_vip, pair.first, pair.second) if i % 2 else
                            (pair.second_vip, pair.second, pair.first))
        pair.settled(engines)
        there_vip = pair.second_vip if here is pair.first else pair.first_vip
        would = there.explain({"listener": there_vip, "body": {"model": "tiny", "prompt": prompt}}).json()
        assert complete(vip, prompt, request_id=f"r{i}").status == 200
        receipt = here.receipt(f"r{i}")
        leg, other = receipt["legs"][-1], would["legs"][-1]
        assert leg["matched_blocks"] == other["matched_blocks"], i
        assert leg["tier"] == other["tier"], i
        if leg["tier"] == "kv_exact":
            matched += 1
            assert leg["endpoint"] == other["endpoint"], i
        tokens = receipt["tokens"]
        assert tokens["predicted_cached"] == tokens["reported_cached"], i
    assert matched >= 150


def test_who_comes_late_is_told_everything_by_replay(start_gateway, engine):
    engines = by_address([engine(), engine()])
    pair = Pair(start_gateway, list(engines))
    pair.first.wait_signal(pair.first_body, ("ok", "quiet"))
    pair.fill(20)
    pair.settled(engines)
    pair.join()
    pair.settled(engines)
    pair.fill(5, "More")
    pair.settled(engines)
    assert pair.first.metric("sluice_kv_republished_batches_total") > 0
    assert pair.first.metric("sluice_kv_republish_streams") == 2
    assert pair.first.metric("sluice_kv_republish_buffer_bytes") > 0
    assert pair.first.metric("sluice_kv_republish_dropped_total") == 0


def test_what_engines_drop_is_dropped_by_both(start_gateway, engine):
    engines = by_address([engine("--num-gpu-blocks-override", 120, "--max-model-len", 1500)])
    pair = Pair(start_gateway, list(engines))
    pair.join()
    for gateway, body in pair.sides():
        gateway.wait_signal(body, ("ok", "quiet"))
    pair.fill(40)
    pair.settled(engines)
    (only,) = engines.values()
    assert len(only.cache()) <= 120


def test_the_first_gateway_may_start_anew(start_gateway, engine):
    engines = by_address([engine()])
    pair = Pair(start_gateway, list(engines))
    pair.join()
    pair.second.wait_signal(pair.second_body, ("ok", "quiet"))
    pair.fill(10)
    pair.settled(engines)
    pair.first.stop()
    # What happens meanwhile is heard from the engine's own replay.
    assert complete(pair.second_vip, "Meanwhile. " + TEXT).status == 200
    wait_until(lambda: endpoint_kv(pair.second, pair.second_body)["signal"] in ("doubtful", "dead"), 20,
               "the link is down")
    pair.first.start()
    pair.settled(engines, 60)
    pair.fill(5, "After")
    pair.settled(engines)
    assert endpoint_kv(pair.second, pair.second_body)["signal"] == "ok"


def test_an_engine_may_start_anew(start_gateway, ends):
    from gateway import free_port
    ports = free_port(), free_port(), free_port()
    flags = ["--model", MINI_TOKENIZER, "--served-model-name", "tiny", "--block-size", 16,
             "--enable-prompt-tokens-details", "--port", ports[0], "--kv-events-config",
             events_config(endpoint=f"tcp://[::ffff:127.0.0.1]:{ports[1]}",
                           replay_endpoint=f"tcp://127.0.0.1:{ports[2]}")]
    old = start_sim(*flags)
    engines = {old.address: old}
    try:
        pair = Pair(start_gateway, [old.address])
        pair.join()
        pair.second.wait_signal(pair.second_body, ("ok", "quiet"))
        pair.fill(10)
        pair.settled(engines)
    finally:
        old.__exit__()
    new = ends.enter_context(start_sim(*flags))
    engines[new.address] = new
    pair.fill(3, "New")
    pair.settled(engines, 60)
    assert endpoint_kv(pair.second, pair.second_body)["blocks"] < 10 * len(TEXT) / 16


def test_the_second_says_why_it_hears_nothing(start_gateway, engine):
    only = engine()
    pair = Pair(start_gateway, [only.address])
    pair.join()
    pair.second.wait_signal(pair.second_body, ("ok", "quiet"))
    from conftest import rule
    quiet = rule(pair.first_vip, [only.address], **pair.arguments)
    pair.first.create(quiet)
    def off():
        kv = endpoint_kv(pair.second, pair.second_body)
        return kv["signal"] == "off" and kv["reason"] == "events_off"
    wait_until(off, 30, "events off")
    pair.first.create(pair.first_body)
    pair.second.wait_signal(pair.second_body, ("ok", "quiet"), 30)
    pair.first.stop()
    def gone():
        kv = endpoint_kv(pair.second, pair.second_body)
        return kv["signal"] == "dead" and kv["reason"] == "unreachable"
    wait_until(gone, 30, "unreachable")


def test_gateways_in_a_row(start_gateway, engine):
    from conftest import rule
    only = engine()
    engines = {only.address: only}
    pair = Pair(start_gateway, [only.address])
    pair.join()
    # The second one publishes what it reads, and a third reads that.
    from conftest import free_range
    again = dict(pair.second_body["serviceArguments"], kvRepublish=f"tcp://127.0.0.1:{free_range(2)}")
    pair.second_body = {**pair.second_body, "serviceArguments": again}
    pair.second.create(pair.second_body)
    third = start_gateway("third")
    body = rule(third.vip(), [only.address], kvEventsFrom=f"http://{pair.second.api}", **pair.arguments)
    third.create(body)
    third.wait_signal(body, ("ok", "quiet"))
    pair.fill(5)
    pair.settled(engines)
    wait_until(lambda: endpoint_kv(third, body)["blocks"] == len(only.cache()), 20, "the third's blocks")
