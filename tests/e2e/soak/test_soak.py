"""Pairs of both engines under mixed load while engines are killed and rules edited: no client is told
anything malformed.

Every answer is the text of one engine alone, a well-formed error with a code, or a stream that ends with
an error event after a part of that text. In the end nothing is held and memory is flat.
SLUICE_SOAK_SECONDS (600) is how long, SLUICE_SOAK_SEED the order of everything, SLUICE_SOAK_LEAK how many
bytes a second the gateway is made to lose.
"""

import contextlib
import os
import random
import shutil
import time

import curve
from crowd import Crowd, Pool
from gateway import API, Gateway, free_port, rule, split_address
from harness import MINI_TOKENIZER, exchange, wait_until
from mortal import LEASE_S, Engine

SECONDS = float(os.environ.get("SLUICE_SOAK_SECONDS", "600"))
SEED = int(os.environ.get("SLUICE_SOAK_SEED", "1"))
CLIENTS = 20
RATE = 300  # requests a second, if the machine can
# Between the second fifth of a run, when caches are full, and the last. 100 bytes lost with each of
# 100,000 requests are 9.5 MiB; half of that is what others may take and give back, some MiB up and down.
GROWTH_BYTES_A_REQUEST = 50
GROWTH_BYTES = 4 << 20
# From the fourth fifth. The heap keeps what it needed at once, some MiB each time that it needed more than
# ever.
RSS_GROWTH = 0.05
# In less time caches are not full.
JUDGED_SECONDS = 600
# Bytes lost every second, to see that it would be noticed.
LEAK = int(os.environ.get("SLUICE_SOAK_LEAK", "0"))
FAULTS = ("reset", "close", "status:500", "status:503", "status:429", "slow-head:300", "draining",
          "cut-after:3", "reset-after:2", "error-after:2")
VLLM = {"kv_transfer_params": {"do_remote_prefill": True}}
TRTLLM = {"disaggregated_params": {"request_type": "generation_only", "ctx_request_id": 7}}
# By kind: the roles of its engines, and members of a body that only an orchestrator may set.
KINDS = {"nixl": ((1, 1, 2, 2, 0), VLLM), "mooncake": ((1, 1, 2, 2), VLLM),
         "trtllm": ((1, 1, 2, 2), TRTLLM)}


class Rule:
    """Pairs of one kind of engine, as the gateway has them, and perhaps one without a role."""

    def __init__(self, gateway, kind):
        self.gateway, self.kind = gateway, kind
        # Mooncake: one port of every prefill engine, so each is on a host of its own.
        bootstrap, is_spread = free_port(), kind == "mooncake"
        self.engines = [Engine(kind, role, f"127.0.0.{i + 1 if is_spread else 1}", bootstrap)
                        for i, role in enumerate(KINDS[kind][0])]
        self.plain = Engine(kind, None)
        fields = {"kvEngineType": "trtllm"} if kind == "trtllm" else {
            "kvEngineType": "vllm", "pd_connector": kind, "plugin_config": {"vllm": {
                "kv_lease_duration": LEASE_S["nixl"], "mooncake_bootstrap_port": bootstrap}}}
        self.body = rule(gateway.vip(), self.rows(), pd_disagg_mode=True, pd_cache_aware_mode=True,
                         kvExactMode=1, kvBlockSize=16, cb_enable=True,
                         breaker={"failures": 3, "open_ms": 1000}, pd_max_inflight_per_ep=16,
                         pd_queue_depth_per_ep=64, **fields)
        ip, port = (self.body["serviceArguments"][k] for k in ("externalIP", "port"))
        self.vip = f"{ip}:{port}"
        self.path = f"{API}/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/tcp"

    def pool(self):
        return Pool(self.kind, self.vip, self.plain.address, KINDS[self.kind][1],
                    takes_many=self.kind != "trtllm")

    def create(self):
        self.number = self.gateway.create(self.body)["number"]

    def delete(self):
        assert self.gateway.delete(self.path[len(API):]).status == 200

    def rows(self):
        return [(e.address, {"ep_role": e.role}) for e in self.engines]

    def patch(self, **change):
        reply = exchange(self.gateway.api, "PATCH", self.path, change, limit_s=30)
        assert reply.status == 200, reply.body

    def weigh(self, weight_of):
        endpoints = rule(self.vip, self.rows())["endpoints"]
        self.patch(endpoints=[{**row, "weight": weight_of(e)}
                              for row, e in zip(endpoints, self.engines) if weight_of(e) is not None])

    def host(self, engine, state):
        host, port = split_address(engine.address)
        reply = exchange(self.gateway.api, "POST", f"{API}/config/endpointhoststate",
                         {"hostName": host, "epPort": port, "state": state})
        assert reply.status == 200, reply.body


class Trouble:
    """What happens to engines and rules while clients ask."""

    def __init__(self, rules, rng):
        self.rules, self.rng = rules, rng
        self.kills = self.edits = self.armed = 0
        self.begun = time.monotonic()

    def is_before(self, part):
        return time.monotonic() < self.begun + SECONDS * part

    def one(self, pause):
        self.rng.choices((self.kill, self.kill_role, self.edit, self.arm), (5, 1, 3, 2))[0](
            self.rng.choice(self.rules), pause)

    def kill(self, at, pause, victims=None):
        victims = victims or [self.rng.choice(at.engines)]
        for engine in victims:
            engine.remember()
            engine.kill()
            self.kills += 1
        pause(self.rng.uniform(0.1, 1.5))
        for engine in victims:
            engine.start()

    def kill_role(self, at, pause):
        role = self.rng.choice((1, 2))
        self.kill(at, pause, [e for e in at.engines if e.role == role])

    def edit(self, at, pause):
        self.edits += 1
        one = self.rng.choice(at.engines)
        # An endpoint that is new has its engine's whole buffer of events read at once: up to tens of
        # MiB, and the heap keeps the room. Not any more when memory is judged, then.
        how = self.rng.choice((0, 1, 2, 3, 4) if self.is_before(0.5) else (0, 1, 3, 4))
        if how == 0:
            weights = {e: self.rng.randint(1, 9) for e in at.engines}
            at.weigh(weights.get)
        elif how == 1:
            at.host(one, "yellow")
            pause(self.rng.uniform(0.1, 2))
            at.host(one, "green")
        elif how == 2:
            at.weigh(lambda e: None if e is one else 1)  # out, and in again as another endpoint
            pause(self.rng.uniform(0.1, 2))
            at.weigh(lambda e: 1)
        elif how == 3:
            at.patch(serviceArguments={"pd_max_inflight_per_ep": self.rng.choice((2, 16, 0)),
                                       "pd_session_ttl_sec": self.rng.choice((1, 300))})
        else:
            mode = self.rng.choice((0, 1, 1)) if self.is_before(0.1) else 1  # as with a new endpoint
            at.patch(serviceArguments={"pd_cache_threshold": self.rng.randint(0, 100),
                                       "kvExactMode": mode})

    def arm(self, at, _pause):
        self.armed += 1
        self.rng.choice(at.engines).arm(self.rng.choice(FAULTS), self.rng.randint(1, 5))


def test_no_client_sees_a_malformed_answer_while_engines_die(tmp_path):
    tokenizers = tmp_path / "tokenizers"
    shutil.copytree(MINI_TOKENIZER, tokenizers / "tiny")
    heap = tmp_path / "heap"
    with Gateway(str(tmp_path), tokenizers=tokenizers,
                 env=curve.Curve.environment(heap, LEAK)) as gateway, contextlib.ExitStack() as ends:
        rules = [Rule(gateway, kind) for kind in KINDS]
        everyone = [e for r in rules for e in (*r.engines, r.plain)]
        for engine in everyone:
            ends.callback(lambda e=engine: e.kill())
        files = files_of_none(gateway, rules)
        for r in rules:
            r.create()
        crowd = Crowd([r.pool() for r in rules], CLIENTS, RATE, SEED)
        trouble = Trouble(rules, rng := random.Random(SEED))
        with curve.Curve(gateway.child.pid, heap, crowd.total) as memory, crowd:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end and len(crowd.faults) < 20:
                time.sleep(rng.uniform(0.1, 1.2))
                trouble.one(time.sleep)
        told(crowd, trouble, memory, gateway)
        assert not crowd.faults
        for r in rules:
            assert crowd.counts[r.kind, "right"] > SECONDS
        nothing_is_held(gateway, rules)
        if SECONDS >= JUDGED_SECONDS:
            assert memory.fifth(3, "heap") > 0, f"nobody watches: {curve.HEAP_WATCH}"
            most = max(GROWTH_BYTES, GROWTH_BYTES_A_REQUEST * memory.growth("requests", 1))
            assert memory.growth("heap", 1) < most, memory.text()
            assert memory.growth("rss", 3) < RSS_GROWTH * memory.fifth(3, "rss"), memory.text()
        for r in rules:
            r.delete()
        wait_until(lambda: curve.open_files(gateway.child.pid) <= files, 60,
                   f"no more files than {files}")


def files_of_none(gateway, rules):
    """Open files without a rule, once everything was begun that begins with the first."""
    for r in rules:
        r.create()
    wait_until(lambda: gateway.metric("loxilb_kv_subscriber_connected") > 0, 60, "events come")
    for r in rules:
        r.delete()

    def settled():
        files = curve.open_files(gateway.child.pid)
        return files if files["socket"] == 1 else None  # the management interface

    return wait_until(settled, 60, "connections are closed")


def told(crowd, trouble, memory, gateway):
    requests = crowd.total()
    seconds = memory.samples[-1][0]
    print(f"\nsoak: {seconds:.0f} s, {requests} requests ({requests / seconds:.0f} a second), "
          f"{trouble.kills} kills, {trouble.edits} edits, {trouble.armed} faults")
    for pool in crowd.pools:
        ends = {end: n for (name, end), n in sorted(crowd.counts.items()) if name == pool.name}
        print(f"  {pool.name}: {ends}")
    for name in ("pd_connect_failover", "pd_prefill_ep_died", "pd_decode_ep_died",
                 "pd_decode_zero_byte_eof", "pd_recomputed", "pd_admission_queued",
                 "pd_admission_shed", "pd_trt_ctx_early_exit", "pd_fallback_to_normal"):
        print(f"  {name}: {gateway.metric(f'loxilb_{name}_total'):.0f}", end="")
    for fault in crowd.faults[:20]:
        print(f"\n  fault: {fault[:1000]}", end="")
    print(f"\n  heap/RSS in MiB: {memory.text()}\n  from the second fifth to the last: heap "
          f"{memory.growth('heap', 1):.0f} bytes in {memory.growth('requests', 1):.0f} requests; "
          f"from the fourth: RSS {memory.growth('rss', 3):.0f} bytes", flush=True)


def nothing_is_held(gateway, rules):
    def idle():
        return all(e["inflight"] == 0 and e.get("queued", 0) == 0
                   for r in gateway.rules() for e in r["endpoints"])

    wait_until(idle, 30, "nothing is in flight")
    for gauge in ("loxilb_ai_active_streams", "loxilb_pd_admission_waiting",
                  "loxilb_proxy_active_connections"):
        wait_until(lambda: gateway.metric(gauge) == 0, 30, gauge)
    # Hand-offs nobody read are over when their time is.
    for r in rules:
        for engine in r.engines:
            wait_until(lambda: not engine.held(), LEASE_S[r.kind] + 15, f"{engine.address} holds nothing")
            engine.remember()
    assert sum(e.foreign for r in rules for e in r.engines) == 0
    for r in rules:
        if r.kind == "mooncake":
            # The gateway would count on its lease for 480 s, but not of a process that is gone.
            for engine in r.engines:
                engine.kill()
                engine.start()
        wait_until(lambda: gateway.metric("loxilb_pd_leases_outstanding", service=r.number) == 0, 60,
                   f"no lease of {r.kind}")
        ends = {end: int(gateway.metric("loxilb_pd_leases_total", service=r.number, end=end))
                for end in ("read", "released", "expired", "unused")}
        print(f"  {r.kind} hand-offs: {ends}; engines count {sum(e.reads for e in r.engines)} read, "
              f"{sum(e.expired for e in r.engines)} expired")
        r.ended = sum(ends.values())
        assert ends["read"] > 0
    # Mooncake's prefill replies hand nothing over.
    assert sum(r.ended for r in rules if r.kind != "mooncake") == gateway.metric(
        "loxilb_ai_pd_kv_params_found_total")
    assert gateway.metric("loxilb_pd_sessions_active") <= 4096 * len(rules)
    assert gateway.metric("loxilb_pd_trie_nodes") <= 65536 * len(rules)
