"""A vLLM rule and a TensorRT-LLM rule in one gateway, both exact under load at the same time."""

import random
import threading

from gateway import chat, complete, rule
from harness import MINI_TOKENIZER, events_config, start_sim, wait_until

from world import BLOCK, assert_lone_reader, cached_of, trt_rule

WORDS = "harbour master tide storm light keeper rope anchor north fog bell chart pilot".split()


class Client(threading.Thread):
    """One conversation after another, each request sent when the last one's blocks are known."""

    def __init__(self, gateway, vip, number, turns):
        super().__init__()
        self.gateway, self.vip, self.number, self.turns = gateway, vip, number, turns
        self.rng = random.Random(number)
        self.failure = None
        self.seen, self.hits, self.tiers = 0, 0, set()

    def run(self):
        try:
            self.converse()
        except BaseException as e:  # told by the test, which joins the thread
            self.failure = e

    def text(self, n):
        return " ".join(self.rng.choice(WORDS) for _ in range(n))

    def converse(self):
        history = self.start_anew()
        for turn in range(self.turns):
            if turn % 8 == 7:
                history = self.start_anew()
            history = history + " " + self.text(30)
            name = f"c{self.number}-{turn}"
            streams = turn % 3 == 1
            more = {"stream": True, "stream_options": {"include_usage": True}} if streams else {}
            if turn % 2:
                messages = [{"role": "user", "content": history}]
                reply = chat(self.vip, messages, request_id=name, max_tokens=6, **more)
                question = {"model": "tiny", "messages": messages}
            else:
                reply = complete(self.vip, history, request_id=name, max_tokens=6, **more)
                question = {"model": "tiny", "prompt": history}
            assert reply.status == 200 and reply.is_complete, reply.body
            receipt = self.gateway.receipt(name)
            predicted, cached = receipt["tokens"]["predicted_cached"], cached_of(reply)
            assert predicted == cached == receipt["tokens"]["reported_cached"], receipt
            self.seen += 1
            self.hits += cached > 0
            self.tiers.add(receipt["legs"][-1]["tier"])
            self.wait_known(question, receipt)

    def start_anew(self):
        return f"Client {self.number} " + self.text(60)

    def wait_known(self, question, receipt):
        """Until the gateway knows all of this prompt's blocks where it was served."""
        blocks = (receipt["prompt_tokens"] - 1) // BLOCK
        served = receipt["legs"][-1]["endpoint"]

        def known():
            told = self.gateway.explain({"listener": self.vip, "body": question}).json()
            return any(c["endpoint"] == served and c["matched_blocks"] >= blocks
                       for c in told["candidates"])
        wait_until(known, 30, f"the blocks of {receipt['id']}")


def test_both_engines_stay_exact_under_concurrent_load(gateway, engines):
    theirs = engines(2)
    ours = [start_sim("--model", MINI_TOKENIZER, "--served-model-name", "tiny", "--block-size", BLOCK,
                      "--enable-prompt-tokens-details", "--kv-events-config", events_config())
            for _ in range(2)]
    try:
        vips = [gateway.vip(), gateway.vip()]
        bodies = [rule(vips[0], [e.address for e in ours], kvExactMode=3, kvColdSeedEvery=0),
                  trt_rule(vips[1], theirs)]
        for body in bodies:
            gateway.create(body)
            gateway.wait_signal(body, ("ok", "quiet"))
        clients = [Client(gateway, vips[n % 2], n, 16) for n in range(8)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        for client in clients:
            assert client.failure is None, client.failure
        for parity in (0, 1):
            mine = clients[parity::2]
            assert sum(c.seen for c in mine) == 64
            assert sum(c.hits for c in mine) > 40
            assert "kv_exact" in set().union(*(c.tiers for c in mine))
        for body in bodies:
            signals = {e["kv"]["signal"] for e in gateway.find(body)["endpoints"]}
            assert signals <= {"ok", "quiet"}
        for engine in theirs:
            assert_lone_reader(engine)
    finally:
        for engine in ours:
            engine.__exit__(None, None, None)
