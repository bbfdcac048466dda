import pytest

from gateway import rule
from harness import MINI_TOKENIZER, start_sim


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
def pool(gateway, engines):
    """pool(prefills, decodes, wholes, flags, **fields): a rule over so many engines."""
    def make(prefills=1, decodes=1, wholes=0, flags=(), **fields):
        p, d, w = engines(prefills, *flags), engines(decodes, *flags), engines(wholes, *flags)
        vip = gateway.vip()
        gateway.create(pd_rule(vip, p, d, w, **fields))
        return vip, p, d, w
    return make


def pd_rule(vip, prefills, decodes, wholes=(), **arguments):
    """The body of a P/D rule over these engines (or addresses)."""
    def rows(engines, role):
        return [(getattr(e, "address", e), {"ep_role": role}) for e in engines]
    return rule(vip, [*rows(prefills, 1), *rows(decodes, 2), *rows(wholes, 0)],
                pd_disagg_mode=True, **arguments)


def held(engine):
    """The hand-offs an engine holds blocks for."""
    return engine.get("/sim/leases").json()["ranks"][0]["held"]


def legs(gateway, request_id):
    return [(leg["kind"], leg["endpoint"], leg["verdict"])
            for leg in gateway.receipt(request_id)["legs"]]
