import shutil
import uuid

import pytest

from gateway import Gateway, complete, rule
from harness import MINI_TOKENIZER, start_trt

FLAGS = ("--model", MINI_TOKENIZER, "--served-model-name", "tiny", "--tokens-per-block", 16,
         "--prefill-us-per-token", 0, "--decode-us-per-token", 0)


@pytest.fixture
def tokenizers(tmp_path):
    root = tmp_path / "tokenizers"
    shutil.copytree(MINI_TOKENIZER, root / "tiny")
    return root


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
def gateway(tmp_path, tokenizers):
    with Gateway(str(tmp_path), tokenizers=tokenizers) as gw:
        yield gw


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


def posts(engine):
    """Generation requests an engine was sent, oldest first."""
    return [r for r in engine.requests()
            if r["method"] == "POST" and r["target"].startswith("/v1/")]


def leases(engine):
    """What waits for others ("held"), and what this engine read of others ("pulls")."""
    document = engine.get("/sim/leases").json()
    return {**document["ranks"][0], "pulls": document["pulls"]}


def nothing_foreign(*engines):
    """No generation leg read KV of another prompt."""
    return all(leases(e)["pulls"]["foreign"] == 0 for e in engines)


def prompt(text=""):
    """A prompt of several blocks that no test had before."""
    return (text or uuid.uuid4().hex) + " the quick brown fox jumps over the lazy dog" * 6


def text_of(reply):
    assert reply.status == 200, reply.body
    return reply.json()["choices"][0]["text"]


def same_text(reply, plain, words, **more):
    """Whether an answer is what one engine alone says to the same prompt."""
    return text_of(reply) == text_of(complete(plain.address, words, **more))


def legs(gateway, request_id):
    return [(leg["kind"], leg["verdict"]) for leg in gateway.receipt(request_id)["legs"]]
