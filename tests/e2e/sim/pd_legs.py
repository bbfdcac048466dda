"""The legs of a simulated pair of vLLM engines, as a gateway would send them."""

import random

import pytest

from harness import start_sim

BLOCK = 32
FLAGS = ("--block-size", BLOCK, "--num-gpu-blocks-override", 65, "--max-model-len", 512,
         "--prefill-us-per-token", 0, "--decode-us-per-token", 0, "--enable-prompt-tokens-details",
         "--dev-mode", "--served-model-name", "tiny")
NIXL = ("--kv-connector", "nixl")
ASK = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
       "remote_block_ids": None, "remote_host": None, "remote_port": None}
PATH = "/v1/completions"


def prompt(seed, tokens=70):
    return [random.Random(seed).randrange(97, 123) for _ in range(tokens)]


def body(ids, **more):
    return {"prompt": ids, "max_tokens": 12, "ignore_eos": True, **more}


def engine(*flags):
    return start_sim(*FLAGS, *flags)


def prefill(p, ids, request_id="r-1", **more):
    reply = p.post(PATH, {**body(ids, **more), "max_tokens": 1, "kv_transfer_params": ASK},
                   [("X-Request-Id", request_id)])
    assert reply.status == 200
    return reply.json()


def params_of(p, ids, request_id="r-1"):
    return prefill(p, ids, request_id)["kv_transfer_params"]


def decode(d, ids, params, request_id="r-1", **more):
    return d.post(PATH, {**body(ids, **more), "kv_transfer_params": params},
                  [("X-Request-Id", request_id)])


def text(reply):
    assert reply.status == 200, reply.body
    return reply.json()["choices"][0]["text"]


def leases(e):
    return e.get("/sim/leases").json()["ranks"][0]


def held(e):
    return leases(e)["held"]


@pytest.fixture(scope="module")
def plain():
    """What one engine alone says."""
    with engine() as e:
        yield lambda ids, **more: text(e.post(PATH, body(ids, **more)))
