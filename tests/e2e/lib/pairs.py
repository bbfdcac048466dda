"""What tests of prefill/decode pairs say of any engine: prompts, what was sent, whether a text is right."""

import uuid

from gateway import complete
from harness import request_bytes, wait_until


def prompt(text=""):
    """A prompt of several blocks that no test had before."""
    return (text or uuid.uuid4().hex) + " the quick brown fox jumps over the lazy dog" * 6


def posts(engine):
    """Generation requests an engine was sent, oldest first."""
    return [r for r in engine.requests()
            if r["method"] == "POST" and r["target"].startswith("/v1/")]


def is_known(engine):
    """The gateway has heard which process it is and what it counts: with the first word of that, what an
    engine handed over before is not trusted any more."""
    wait_until(lambda: sum(r["target"] == "/metrics" for r in engine.requests()) >= 3, 20,
               "it was asked for its counters")


def header(request, name):
    """A header's value in a recorded request; None when it has none."""
    return next((v for k, v in request["headers"] if k.lower() == name.lower()), None)


def text_of(reply):
    assert reply.status == 200, reply.body
    return reply.json()["choices"][0]["text"]


def same_text(reply, plain, words, **more):
    """Whether an answer is what one engine alone says to the same prompt."""
    return text_of(reply) == text_of(complete(plain.address, words, **more))


def error(reply):
    """Status and code of a well-formed refusal."""
    assert reply.header("Content-Length") is not None
    return reply.status, reply.json()["error"]["code"]


def message(reply):
    return reply.json()["error"]["message"]


def ask(client, name, words=None, **more):
    """Sends a completion as request `name`, whose prompt begins with its name, on an open connection."""
    client.send(request_bytes("POST", "/v1/completions",
                              {"model": "tiny", "prompt": words or prompt(name), "max_tokens": 4, **more},
                              [("X-Request-Id", name)]))
