"""A prefill and a decode engine that hand KV over, the gateway in front, and a plain engine beside them.

What the plain engine says is right. Everything asked of the gateway is asked of it too, and what it said
is remembered: at the end the decode engine is asked all of it again, because wrong blocks stay in its cache.
"""
import json
import os
import pathlib
import random
import threading
import time

from answers import Answer
from gateway import Gateway, rule
from harness import exchange, wait_until
from real_engines import MODEL
from tap import Tap
from workload import prose

# An engine lets the blocks go when this has passed; the gateway hands nothing on after the half of it.
LEASE_S = 10
# The same numbers in other batches and chunks: how far the log-probabilities of equal tokens may differ.
# Wrong blocks differ by whole units.
CLOSE = 0.05


class Pair:
    def __init__(self, folder, engine_type, model):
        self.folder = pathlib.Path(folder)
        self.prefill = engine_type(folder, "prefill", model, lease_s=LEASE_S)
        self.decode = engine_type(folder, "decode", model, lease_s=LEASE_S)
        self.plain = engine_type(folder, "plain", model)
        self.engines = [self.prefill, self.decode, self.plain]
        with open(pathlib.Path(model) / "tokenizer.json", encoding="utf-8") as f:
            self.vocabulary = len(json.load(f)["model"]["vocab"])
        self.rng = random.Random(int(os.environ.get("SLUICE_REAL_SEED", "40")))
        self.gateway = self.door = None
        self.number = 0
        self.asked = []     # (path, body, what the plain engine said)
        self.furthest = 0.  # the largest difference of a log-probability so far

    def start(self):
        for engine in self.engines:
            engine.start()
        for engine in self.engines:
            engine.wait_ready()
        self.door = Tap(self.decode.address)
        self.gateway = Gateway(str(self.folder))
        self.vip = self.rule([self.door.address], pd_decode_only_fallback=True)

    def stop(self):
        try:
            if self.gateway is not None:
                self.gateway.stop()
            if self.door is not None:
                self.door.__exit__()
        finally:
            for engine in self.engines:
                engine.stop()

    def rule(self, decodes, wholes=(), **more):
        """A rule with the prefill engine and these addresses; its VIP."""
        vip = self.gateway.vip()
        rows = [(self.prefill.address, {"ep_role": 1}), *((a, {"ep_role": 2}) for a in decodes),
                *((a, {"ep_role": 0}) for a in wholes)]
        self.gateway.create(rule(vip, rows, pd_disagg_mode=True, pd_connector="nixl",
                                 plugin_config={"vllm": {"kv_lease_duration": LEASE_S}}, **more))
        return vip

    # --- what is asked
    def text(self, words=None):
        """A completion nobody asked before, of some hundred tokens."""
        return self.finish("/v1/completions", {
            "prompt": prose(self.rng, words or self.rng.randint(60, 400)), "logprobs": 1})

    def ids(self, size=None):
        size = size or self.rng.randint(33, 1500)
        return self.finish("/v1/completions", {
            "prompt": [self.rng.randrange(self.vocabulary) for _ in range(size)], "logprobs": 1})

    def chat(self):
        turns = [{"role": "system", "content": prose(self.rng, 60)}]
        for _ in range(self.rng.randint(0, 2)):
            turns += [{"role": "user", "content": prose(self.rng, self.rng.randint(5, 80))},
                      {"role": "assistant", "content": prose(self.rng, self.rng.randint(5, 60))}]
        turns.append({"role": "user", "content": prose(self.rng, self.rng.randint(5, 120))})
        return self.finish("/v1/chat/completions", {"messages": turns, "logprobs": True})

    def finish(self, path, body):
        return path, {"model": MODEL, **body, "temperature": 0, "return_token_ids": True,
                      "max_tokens": self.rng.choice([1, 2, 9, 24, 33])}

    @staticmethod
    def streamed(ask):
        path, body = ask
        return path, {**body, "stream": True, "stream_options": {"include_usage": True}}

    # --- asking
    def send(self, address, ask, limit_s=180, **more):
        """The reply (None: cut) and the request's id."""
        self.number += 1
        name = f"pair-{self.number}"
        reply = exchange(address, "POST", ask[0], {**ask[1], **more}, [("X-Request-Id", name)],
                         limit_s=limit_s)
        assert reply is not None and reply.is_complete, "the reply was cut"
        return reply, name

    def right(self, ask):
        """What the plain engine says."""
        reply, _ = self.send(self.plain.address, ask)
        answer = Answer(reply, ask[1])
        assert answer.status == 200, answer.text
        self.asked.append((ask, answer))
        return answer

    def through(self, ask, vip=None, **more):
        """What the gateway says; the answer and the request's id."""
        reply, name = self.send(vip or self.vip, ask, **more)
        return Answer(reply, ask[1]), name

    def background(self, ask, vip=None):
        """Asks in a thread: call what is returned for (answer, id)."""
        out = []
        thread = threading.Thread(target=lambda: out.append(self.through(ask, vip)), daemon=True)
        thread.start()

        def join():
            thread.join(180)
            assert out, "no answer"
            return out[0]
        return join

    def differs(self, got, want):
        """What is wrong with an answer, in words; empty: nothing."""
        if got.status != 200:
            return f"{got.status} {got.text}"
        if got.text != want.text or got.output != want.output:
            return f"said {got.output}, right is {want.output}"
        if (got.prompt, got.finish) != (want.prompt, want.finish):
            return f"another prompt, or ended {got.finish} and not {want.finish}"
        if len(got.logprobs) != len(want.logprobs) or not got.logprobs:
            return f"{len(got.logprobs)} log-probabilities of {len(want.logprobs)}"
        far = max(abs(a - b) for a, b in zip(got.logprobs, want.logprobs))
        self.furthest = max(self.furthest, far)
        counts = [(a.usage.get("prompt_tokens"), a.usage.get("completion_tokens")) for a in (got, want)]
        if counts[0] != counts[1]:
            return f"usage {counts[0]}, right is {counts[1]}"
        return f"log-probabilities differ by {far}" if far > CLOSE else ""

    def check(self, ask, vip=None, **more):
        """Asks both; the request's id. The answer is a right one."""
        want = self.right(ask)
        got, name = self.through(ask, vip, **more)
        assert not self.differs(got, want), self.differs(got, want)
        return name

    def legs(self, name):
        return [(leg["kind"], leg["verdict"]) for leg in self.gateway.receipt(name)["legs"]]

    # --- what prefill holds
    def is_holding(self):
        return self.prefill.metric("kv_cache_usage_perc") > 0

    def wait_blocks_back(self, limit_s=60):
        """Until prefill holds nothing; the seconds it took."""
        begun = time.monotonic()
        wait_until(lambda: not self.is_holding(), limit_s, "the blocks are back")
        return time.monotonic() - begun

    def expired(self):
        return self.prefill.metric("nixl_num_kv_expired_reqs_total")

    def overwrite_prefill(self):
        """Other prompts go over every block that prefill does not hold."""
        for _ in range(8):
            reply, _ = self.send(self.prefill.address, self.ids(1400))
            assert reply.status == 200

    def clear(self):
        for engine in self.engines:
            reply = exchange(engine.address, "POST", "/reset_prefix_cache", {}, limit_s=30)
            assert reply.status == 200, reply.body
