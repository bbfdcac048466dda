import pytest

from gateway import rule
from harness import MINI_TOKENIZER, start_trt

FLAGS = ("--model", MINI_TOKENIZER, "--served-model-name", "tiny", "--tokens-per-block", 16,
         "--prefill-us-per-token", 0, "--decode-us-per-token", 0)


@pytest.fixture
def engines():
    """engines(n, *flags): n simulated TensorRT-LLM engines, ended with the test."""
    started = []

    def start(count, *flags):
        fresh = [start_trt(*FLAGS, *flags) for _ in range(count)]
        started.extend(fresh)
        return fresh

    yield start
    for engine in started:
        engine.__exit__(None, None, None)


@pytest.fixture
def plain():
    """An engine that is no part of any pool: what it says is the right text."""
    with start_trt(*FLAGS, "--no-cache-transceiver") as engine:
        yield engine


@pytest.fixture
def pool(gateway, engines):
    """pool(contexts, generations, flags, **fields): a rule over so many engines."""
    def make(contexts=1, generations=1, flags=(), **fields):
        c, g = engines(contexts, *flags), engines(generations, *flags)
        vip = gateway.vip()
        rows = [(e.address, {"ep_role": 1}) for e in c] + [(e.address, {"ep_role": 2}) for e in g]
        gateway.create(rule(vip, rows, pd_disagg_mode=True, kvEngineType="trtllm", **fields))
        return vip, c, g
    return make


def leases(engine):
    """What waits for others ("held"), and what this engine read of others ("pulls")."""
    document = engine.get("/sim/leases").json()
    return {**document["ranks"][0], "pulls": document["pulls"]}


def nothing_foreign(*engines):
    """No generation leg read KV of another prompt."""
    return all(leases(e)["pulls"]["foreign"] == 0 for e in engines)


def legs(gateway, request_id):
    return [(leg["kind"], leg["verdict"]) for leg in gateway.receipt(request_id)["legs"]]
