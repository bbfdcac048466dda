"""Two engines, the gateway in front, and a test's own reader of each engine's events."""
import json
import pathlib
import shutil
import time

from answers import Answer
from gateway import Gateway, rule
from harness import exchange, wait_until
from real_engines import BLOCK, MODEL
from shadow import Shadow
from workload import Done, Workload

# How long both readers must have been silent before the next request: batches of one request come
# at most one scheduler step apart, some milliseconds.
QUIET_S = 0.05


class Stand:
    def __init__(self, folder, engine_type, model):
        self.folder = pathlib.Path(folder)
        self.engines = [engine_type(folder, name, model) for name in "ab"]
        self.shadows = {}
        self.gateway = None
        self.number = 0
        with open(pathlib.Path(model) / "tokenizer.json", encoding="utf-8") as f:
            self.vocabulary = len(json.load(f)["model"]["vocab"])
        tokenizer = self.folder / "tokenizers" / MODEL
        tokenizer.mkdir(parents=True)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(pathlib.Path(model) / name, tokenizer / name)

    def start(self):
        for engine in self.engines:
            engine.start()
        for engine in self.engines:
            engine.wait_ready()
            self.shadows[engine.address] = Shadow(engine, BLOCK)
        self.gateway = Gateway(str(self.folder), tokenizers=self.folder / "tokenizers")
        self.rule = rule(self.gateway.vip(), [e.address for e in self.engines], kvExactMode=3,
                         kvColdSeedEvery=0, kvBlockSize=BLOCK, kvHashAlgo="sha256", kvHashSeed="0",
                         monitor=True, probeTimeout=2)
        self.gateway.create(self.rule)
        arguments = self.rule["serviceArguments"]
        self.vip = f"{arguments['externalIP']}:{arguments['port']}"
        self.gateway.wait_signal(self.rule, ("ok", "quiet"), 60)

    def stop(self):
        for shadow in self.shadows.values():
            shadow.close()
        try:
            if self.gateway is not None:
                self.gateway.stop()
        finally:
            for engine in self.engines:
                engine.stop()

    def endpoints(self):
        """The gateway's view: address -> read-back of the endpoint."""
        return {f"{e['endpointIP']}:{e['targetPort']}": e
                for e in self.gateway.find(self.rule)["endpoints"]}

    def is_settled(self, chosen=None, tokens=(), salt=None):
        """All events of the last request have come, here and at the gateway."""
        now = time.monotonic()
        for shadow in self.shadows.values():
            if not shadow.drain() or now - shadow.last_batch_at < QUIET_S:
                return False
        if chosen and self.shadows[chosen].prefix(tokens[:-1], salt) < (len(tokens) - 1) // BLOCK:
            return False
        seen = self.endpoints()
        # Replayed blocks are in doubt until the replay is known to be whole.
        return all(seen[a]["kv"]["blocks"] == s.held and seen[a]["kv"]["signal"] in ("ok", "quiet")
                   for a, s in self.shadows.items())

    def settle(self, chosen=None, tokens=(), salt=None):
        wait_until(lambda: self.is_settled(chosen, tokens, salt), 20, "events applied")

    def send(self, address, path, body):
        """One request to the gateway or, beside it, to an engine: the answer and its id."""
        self.number += 1
        name = f"real-{self.number}"
        reply = exchange(address, "POST", path, body, [("X-Request-Id", name)], limit_s=120)
        assert reply is not None and reply.is_complete, "the reply was cut"
        return Answer(reply, body), name

    def receipt(self, name):
        def found():
            return next((f for f in self.gateway.flows(limit=3) if f["id"] == name), None)
        return wait_until(found, 10, f"receipt {name}")

    def send_beside(self, address, body):
        answer, _ = self.send(address, "/v1/completions", body)
        assert answer.status == 200, answer.text
        self.settle(address, answer.prompt + answer.output)

    def probe(self, ask):
        """Sends one request through the gateway and judges the route: (Done, problems, receipt)."""
        answer, name = self.send(self.vip, ask.path, ask.body)
        assert answer.status == 200, f"{ask.kind}: {answer.status} {answer.text}"
        assert answer.prompt, f"{ask.kind}: the reply has no prompt_token_ids"
        receipt = self.receipt(name)
        problems = self.judge(ask, answer, receipt)
        self.settle(receipt["legs"][-1]["endpoint"], answer.prompt + answer.output, ask.salt)
        return Done(ask, answer.prompt, answer.output, answer.text), problems, receipt

    def judge(self, ask, answer, receipt):
        """What is wrong with a route, in words; the shadows are still as they were before it."""
        problems = []
        expect = {a: s.findable(answer.prompt, ask.salt) for a, s in self.shadows.items()}
        leg, tokens = receipt["legs"][-1], receipt["tokens"]
        rows = {c["endpoint"]: c for c in receipt["candidates"]}
        if tokens["predicted_cached"] != answer.cached:
            problems.append(f"predicted {tokens['predicted_cached']}, reported {answer.cached}")
        if tokens["reported_cached"] != answer.cached:
            problems.append(f"receipt says reported {tokens['reported_cached']}")
        if expect[leg["endpoint"]] * BLOCK != answer.cached:
            problems.append(f"events say {expect[leg['endpoint']] * BLOCK}")
        if receipt["prompt_tokens"] != len(answer.prompt):
            problems.append(f"counted {receipt['prompt_tokens']} prompt tokens of {len(answer.prompt)}")
        for address, blocks in expect.items():
            if rows[address]["eligible"] and rows[address]["matched_blocks"] != blocks:
                problems.append(f"{address} matched {rows[address]['matched_blocks']}, holds {blocks}")
        longest = max(blocks for a, blocks in expect.items() if rows[a]["eligible"])
        if expect[leg["endpoint"]] != longest:
            problems.append(f"chosen one holds {expect[leg['endpoint']]}, another {longest}")
        if (leg["tier"] == "kv_exact") != (longest > 0):
            problems.append(f"tier {leg['tier']} with {longest} blocks to find, {receipt['misses']}")
        may_fail = len(self.shadows) < len(self.engines)  # one is down: its refusal costs an attempt
        if receipt["outcome"] != "ok" or (leg["attempt"] != 1 and not may_fail):
            problems.append(f"outcome {receipt['outcome']}, attempt {leg['attempt']}")
        return problems


class Run:
    """Requests of one workload, sent one at a time, and what was wrong with their routes."""

    def __init__(self, stand, seed):
        self.stand = stand
        self.work = Workload(seed, stand.vocabulary)
        self.history, self.wrong = [], []
        self.asks = self.work.asks(self.history)

    def step(self):
        """The next request; its receipt, or None at the end."""
        ask = next(self.asks, None)
        if ask is None:
            return None
        done, problems, receipt = self.stand.probe(ask)
        if problems:
            self.wrong.append((ask, problems, receipt))
            print(f"wrong: {ask.kind}: {problems}", flush=True)
        self.history.append(done)
        if ask.conversation:
            ask.conversation.answered(done.text)
        return receipt

    def steps(self, count):
        for _ in range(count):
            assert self.step() is not None
