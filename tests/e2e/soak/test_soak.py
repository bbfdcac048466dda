"""Pairs of engines under mixed load while engines are killed: no client is told anything malformed.

Every answer is the text of one engine alone, a well-formed error with a code, or a stream that ends
with an error event. In the end nothing is held and memory is flat. SLUICE_SOAK_SECONDS (600) is how
long, SLUICE_SOAK_SEED the order of kills.
"""

import collections
import contextlib
import json
import os
import random
import shutil
import threading
import time

from gateway import Gateway, free_port, rule
from harness import MINI_TOKENIZER, RawClient, exchange, request_bytes, start_sim, wait_until

SECONDS = float(os.environ.get("SLUICE_SOAK_SECONDS", "600"))
SEED = int(os.environ.get("SLUICE_SOAK_SEED", "1"))
CLIENTS = 6
GROWTH_KIB = 24 * 1024  # caches of prompts fill up after the first third


class Engine:
    """A simulated engine that keeps its port when it is killed."""

    def __init__(self, connector=True):
        self.port = free_port()
        self.flags = ["--kv-connector", "nixl", "--kv-lease-ms", 3000] if connector else []
        self.start()

    def start(self):
        self.sim = start_sim("--port", self.port, "--model", MINI_TOKENIZER, "--served-model-name",
                             "tiny", "--block-size", 16, "--decode-us-per-token", 300, *self.flags)
        self.address = f"127.0.0.1:{self.port}"

    def kill(self):
        self.sim.kill()
        self.sim._close()


class Load:
    def __init__(self, vip, plain):
        self.vip, self.plain = vip, plain
        self.stop = threading.Event()
        self.counts = collections.Counter()
        self.faults = []

    def body(self, rng):
        words = f"{rng.random()} " + "the quick brown fox jumps over the lazy dog " * rng.choice(
            (1, 6, 6, 60))
        body = {"model": "tiny", "max_tokens": rng.choice((1, 4, 24)), "temperature": 0}
        if rng.random() < 0.5:
            return "/v1/completions", {**body, "prompt": words}
        return "/v1/chat/completions", {**body, "messages": [{"role": "user", "content": words}]}

    @staticmethod
    def text(choice):
        return choice["text"] if "text" in choice else choice["message"]["content"]

    def judge(self, reply, is_stream, path, body):
        if reply is None or not reply.is_complete:
            return "cut"
        if reply.status != 200:
            error = json.loads(reply.body)["error"]
            assert reply.status >= 400 and error["code"] and error["message"]
            return f"error {reply.status} {error['code']}"
        right = self.text(exchange(self.plain, "POST", path, body, limit_s=60).json()["choices"][0])
        if not is_stream:
            said = self.text(reply.json()["choices"][0])
            return "right" if said == right else f"wrong {said!r} for {right!r}"
        events = reply.events()
        if events[-1] != "[DONE]":
            assert json.loads(events[-1])["error"]["code"]
            return "stream error"
        said = ""
        for event in events[:-1]:
            for choice in json.loads(event)["choices"]:
                said += choice["text"] if "text" in choice else choice["delta"].get("content") or ""
        return "right" if said == right else f"wrong stream {said!r} for {right!r}"

    def one(self, rng):
        path, body = self.body(rng)
        is_stream = rng.random() < 0.5
        asked = {**body, "stream": True} if is_stream else body
        with RawClient(self.vip, 60) as client:
            client.send(request_bytes("POST", path, asked))
            if rng.random() < 0.1:
                self.counts["left"] += 1
                if rng.random() < 0.5:
                    with contextlib.suppress(TimeoutError):
                        client.read_more(rng.random() * 0.05 + 0.001)
                return
            reply = client.read_reply()
        verdict = self.judge(reply, is_stream, path, body)
        self.counts[verdict.split(" ")[0]] += 1
        if verdict.startswith(("wrong", "cut")):
            self.faults.append((verdict, path, asked["max_tokens"], is_stream))
        elif verdict != "right":
            self.counts[verdict] += 1

    def client(self, number):
        rng = random.Random(SEED * 1000 + number)
        while not self.stop.is_set():
            try:
                self.one(rng)
            except Exception as e:  # no answer within a minute, or none a client can read
                self.faults.append((repr(e), number))


def rss_kib(gateway):
    with open(f"/proc/{gateway.child.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def test_no_client_sees_a_malformed_answer_while_engines_die(tmp_path):
    tokenizers = tmp_path / "tokenizers"
    shutil.copytree(MINI_TOKENIZER, tokenizers / "tiny")
    rng = random.Random(SEED)
    prefills, decodes = [Engine(), Engine()], [Engine(), Engine()]
    plain = Engine(connector=False)
    kills, early = 0, None
    with Gateway(str(tmp_path), tokenizers=tokenizers) as gateway:
        vip = gateway.vip()
        gateway.create(rule(
            vip, [(e.address, {"ep_role": role}) for role, row in ((1, prefills), (2, decodes))
                  for e in row],
            pd_disagg_mode=True, pd_cache_aware_mode=True, breaker={"failures": 3, "open_ms": 1000},
            plugin_config={"vllm": {"kv_lease_duration": 3}}))
        load = Load(vip, plain.address)
        threads = [threading.Thread(target=load.client, args=(i,)) for i in range(CLIENTS)]
        begun = time.monotonic()
        for t in threads:
            t.start()
        try:
            while (age := time.monotonic() - begun) < SECONDS and len(load.faults) < 20:
                if early is None and age > SECONDS * 0.3:
                    early = rss_kib(gateway)
                load.stop.wait(rng.uniform(1, 4))
                victim = rng.choice(prefills + decodes)
                victim.kill()
                kills += 1
                load.stop.wait(rng.uniform(0.1, 1.5))
                victim.start()
        finally:
            load.stop.set()
            for t in threads:
                t.join()
        late = rss_kib(gateway)
        print(f"soak: {SECONDS:.0f} s, {kills} kills, {dict(load.counts)}, RSS {early} -> {late} KiB")
        assert not load.faults, load.faults[:5]
        assert load.counts["right"] > SECONDS
        wait_until(lambda: all(e["inflight"] == 0 for e in gateway.rules()[0]["endpoints"]), 20,
                   "nothing is in flight")
        for gauge in ("loxilb_pd_leases_outstanding", "loxilb_pd_admission_waiting",
                      "loxilb_ai_active_streams"):
            wait_until(lambda: gateway.metric(gauge) == 0, 20, gauge)
        found = gateway.metric("loxilb_ai_pd_kv_params_found_total")
        print("leases:", found, {end: gateway.metric("loxilb_pd_leases_total", end=end)
                                 for end in ("read", "released", "expired", "unused")})
        assert gateway.metric("loxilb_pd_leases_total") >= found > 0
        assert late - early < GROWTH_KIB
    for engine in (*prefills, *decodes, plain):
        engine.kill()
