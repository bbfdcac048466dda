"""Pairs without NIXL: no connector at all, LMCache, Mooncake."""

import json

from harness import RawClient, request_bytes, wait_until
from pd_legs import (  # noqa: F401 (a fixture is among them)
    ASK, PATH, body, decode, engine, held, plain, prefill, prompt, text)


def test_an_engine_without_connector_ignores_all_of_it(plain):
    with engine() as e:
        for params in ({"do_remote_prefill": True}, ASK):
            reply = decode(e, prompt(41), params)
            assert text(reply) == plain(prompt(41))
            assert reply.json()["kv_transfer_params"] is None


def test_lmcache_engines_say_nothing_of_it(plain):
    with engine("--kv-connector", "lmcache") as p, engine("--kv-connector", "lmcache") as d:
        assert prefill(p, prompt(42))["kv_transfer_params"] is None
        assert text(d.post(PATH, body(prompt(42)))) == plain(prompt(42))
        assert held(p) == []


def mooncake_legs(p, transfer):
    port = p.get("/sim/leases").json()["bootstrap_port"]
    query = json.loads(fetch(f"127.0.0.1:{port}", "/query"))
    first = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": transfer}
    second = {"do_remote_decode": False, "do_remote_prefill": True, "transfer_id": transfer,
              "remote_bootstrap_addr": f"http://127.0.0.1:{port}",
              "remote_engine_id": query["0"]["engine_id"]}
    return first, second


def fetch(address, path):
    with RawClient(address) as client:
        client.send(request_bytes("GET", path))
        return client.read_reply("GET").body


def test_mooncake_legs_meet_by_their_transfer_id(plain):
    with engine("--kv-connector", "mooncake") as p, engine("--kv-connector", "mooncake") as d:
        first, second = mooncake_legs(p, "xfer-1")
        with RawClient(d.address) as client:
            client.send(request_bytes("POST", PATH, {**body(prompt(43)),
                                                     "kv_transfer_params": second}))
            wait_until(lambda: d.metric("num_requests_waiting") == 1)
            reply = p.post(PATH, {**body(prompt(43)), "max_tokens": 1, "kv_transfer_params": first})
            assert reply.json()["kv_transfer_params"] is None
            assert text(client.read_reply()) == plain(prompt(43))
        wait_until(lambda: held(p) == [])
        assert d.metric("external_prefix_cache_hits_total") == 70


def test_mooncake_decode_computes_without_all_three_and_waits_without_prefill(plain):
    with engine("--kv-connector", "mooncake") as p, engine("--kv-connector", "mooncake") as d:
        _, second = mooncake_legs(p, "xfer-2")
        for missing in ("transfer_id", "remote_engine_id", "remote_bootstrap_addr"):
            params = {k: v for k, v in second.items() if k != missing}
            assert text(decode(d, prompt(44), params)) == plain(prompt(44))
        with RawClient(d.address) as client:
            client.send(request_bytes("POST", PATH, {**body(prompt(45)),
                                                     "kv_transfer_params": second}))
            wait_until(lambda: d.metric("num_requests_waiting") == 1)
        wait_until(lambda: d.metric("num_requests_waiting") == 0)
        assert text(d.post(PATH, body(prompt(45)))) == plain(prompt(45))
