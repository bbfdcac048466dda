import shutil
import uuid

import pytest

from gateway import Gateway, complete, rule
from harness import MINI_TOKENIZER, start_sim

@pytest.fixture
def tokenizers(tmp_path):
    root = tmp_path / "tokenizers"
    shutil.copytree(MINI_TOKENIZER, root / "tiny")
    return root


@pytest.fixture
def engines():
    """engines(n, *flags): n simulated engines with a NIXL connector, ended with the test."""
    started = []

    def start(count, *flags):
        fresh = [start_sim("--model", MINI_TOKENIZER, "--served-model-name", "tiny", "--block-size",
                           16, "--enable-prompt-tokens-details", "--kv-connector", "nixl", *flags)
                 for _ in range(count)]
        started.extend(fresh)
        return fresh

    yield start
    for engine in started:
        engine.__exit__(None, None, None)


@pytest.fixture
def plain():
    """An engine that is no part of any pool: what it says is the right text."""
    with start_sim("--model", MINI_TOKENIZER, "--served-model-name", "tiny", "--block-size", 16,
                   "--enable-prompt-tokens-details") as engine:
        yield engine


@pytest.fixture
def gateway(tmp_path, tokenizers):
    with Gateway(str(tmp_path), tokenizers=tokenizers) as gw:
        yield gw


def pd_rule(vip, prefills, decodes, wholes=(), **arguments):
    """The body of a P/D rule over these engines (or addresses)."""
    def rows(engines, role):
        return [(getattr(e, "address", e), {"ep_role": role}) for e in engines]
    return rule(vip, [*rows(prefills, 1), *rows(decodes, 2), *rows(wholes, 0)],
                pd_disagg_mode=True, **arguments)


def posts(engine):
    """Generation requests an engine was sent, oldest first."""
    return [r for r in engine.requests() if r["method"] == "POST"]


def header(request, name):
    """Header values of a recorded request; None when it has none."""
    found = [v for k, v in request["headers"] if k.lower() == name.lower()]
    return found[0] if found else None


def held(engine):
    """The hand-offs an engine holds blocks for."""
    return engine.get("/sim/leases").json()["ranks"][0]["held"]


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
    return [(leg["kind"], leg["endpoint"], leg["verdict"])
            for leg in gateway.receipt(request_id)["legs"]]
