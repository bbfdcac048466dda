"""Blocks that are not the base model's text are never matched wrongly: salts, adapters, images."""

import pytest

from gateway import chat, complete

from world import BLOCK, PROMPT, assert_exact, cached_of, settled, trt_rule, wait_drained

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
LORA = {"lora_request": {"lora_name": "sailor", "lora_int_id": 3}}
MANAGERS = pytest.mark.parametrize("flags", [(), ("--manager", "v2")], ids=["v1", "v2"])


def start(gateway, engines, *flags):
    (engine,) = engines(1, *flags)
    vip = gateway.vip()
    body = trt_rule(vip, [engine])
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))
    return engine, vip, body


class Teller:
    """Sends requests and holds each prediction against the engine's report."""

    def __init__(self, gateway, engine, vip):
        self.gateway, self.engine, self.vip, self.n = gateway, engine, vip, 0

    def send(self, prompt=PROMPT, **more):
        """Predicted and reported cached tokens."""
        self.n += 1
        name = f"told-{self.n}"
        reply = complete(self.vip, prompt, request_id=name, **more)
        assert reply.status == 200, reply.body
        tokens = self.gateway.receipt(name)["tokens"]
        predicted, reported = tokens["predicted_cached"] or 0, cached_of(reply)
        assert predicted <= reported, (more, predicted, reported)
        wait_drained(self.engine)
        return predicted, reported


@MANAGERS
def test_a_salted_prompt_is_not_matched_by_unsalted_blocks_nor_the_other_way(gateway, engines, flags):
    engine, vip, _ = start(gateway, engines, *flags)
    teller = Teller(gateway, engine, vip)
    assert teller.send() == (0, 0)
    plain = teller.send()
    assert plain[0] == plain[1] > 0
    assert teller.send(cache_salt="tenant-a")[0] == 0
    assert teller.send(cache_salt="tenant-b")[0] == 0
    teller.send(cache_salt="tenant-a")
    # An empty salt is a salt.
    assert teller.send(cache_salt="")[0] == 0
    # Salted blocks of another prompt do not serve the plain one.
    other = "Only tenants ask this. " + PROMPT
    teller.send(other, cache_salt="tenant-a")
    assert teller.send(other) == (0, 0)
    known = teller.send(other)
    assert known[0] == known[1] > 0


@MANAGERS
def test_an_adapters_blocks_do_not_serve_the_base_model_nor_the_other_way(gateway, engines, flags):
    engine, vip, _ = start(gateway, engines, *flags)
    teller = Teller(gateway, engine, vip)
    teller.send(**LORA)
    teller.send(**LORA)
    assert teller.send() == (0, 0)
    plain = teller.send()
    assert plain[0] == plain[1] > 0
    assert teller.send("Asked of the adapter. " + PROMPT, **LORA) == (0, 0)
    # Held by the base model, and asked of the adapter: the engine finds nothing.
    fresh = "Asked of the base model. " + PROMPT
    teller.send(fresh)
    assert teller.send(fresh, **LORA) == (0, 0)


@MANAGERS
def test_an_image_is_matched_up_to_the_first_block_that_depends_on_it(gateway, engines, flags):
    engine, vip, body = start(gateway, engines, *flags)
    teller = Teller(gateway, engine, vip)

    def look(url):
        teller.n += 1
        content = [{"type": "text", "text": PROMPT}, {**IMAGE, "image_url": {"url": url}},
                   {"type": "text", "text": "What ship is that? " * 8}]
        reply = chat(vip, [{"role": "user", "content": content}], request_id=f"told-{teller.n}",
                     max_tokens=2)
        assert reply.status == 200, reply.body
        tokens = gateway.receipt(f"told-{teller.n}")["tokens"]
        predicted, reported = tokens["predicted_cached"] or 0, cached_of(reply)
        assert predicted <= reported
        wait_drained(engine)
        return reported

    assert look("data:one") == 0
    before = look("data:two")
    assert 0 < before < look("data:one")
    # And what hangs on an image is not found by text that reads the same.
    text = [{"role": "user", "content": PROMPT + "\nWhat ship is that? " * 8}]
    for n in range(2):
        reply = chat(vip, text, request_id=f"text-{n}", max_tokens=2)
        assert_exact(reply, gateway.receipt(f"text-{n}"))
        wait_drained(engine)


def test_token_ids_in_place_of_messages_are_not_taken_for_the_messages(gateway, engines):
    engine, vip, _ = start(gateway, engines)
    messages = [{"role": "user", "content": PROMPT}]
    for n, ids in enumerate([None, None, list(range(100, 400)), None]):
        reply = chat(vip, messages, request_id=f"chat-{n}", max_tokens=1,
                     **({"prompt_token_ids": ids} if ids else {}))
        assert reply.status == 200, reply.body
        tokens = gateway.receipt(f"chat-{n}")["tokens"]
        if ids:
            assert (tokens["predicted_cached"] or 0) == 0
        else:
            assert_exact(reply, gateway.receipt(f"chat-{n}"))
        wait_drained(engine)


def test_only_full_blocks_before_the_last_token_are_predicted(gateway, engines):
    engine, vip, body = start(gateway, engines)
    ids = list(range(100, 100 + 6 * BLOCK))
    for length in (BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1, 3 * BLOCK - 1, 6 * BLOCK):
        for turn in range(2):
            name = f"ids-{length}-{turn}"
            # Another first token each length, so that no prompt has another's blocks.
            reply = complete(vip, [length] + ids[:length - 1], request_id=name, max_tokens=1)
            assert reply.status == 200, reply.body
            receipt = gateway.receipt(name)
            assert_exact(reply, receipt)
            settled(gateway, body, engine)
        assert cached_of(reply) == (length - 1) // BLOCK * BLOCK


def test_tails_that_are_not_full_are_not_counted_as_blocks(gateway, engines):
    engine, vip, body = start(gateway, engines)
    reply = complete(vip, list(range(200, 200 + BLOCK + 3)), max_tokens=5)
    assert reply.status == 200
    assert settled(gateway, body, engine) == 1
    # An engine that reuses part of a block reports more than whole blocks; that is no fault.
    (partial,) = engines(1, "--enable-partial-reuse")
    other_vip = gateway.vip()
    other = trt_rule(other_vip, [partial])
    gateway.create(other)
    ids = list(range(300, 300 + 3 * BLOCK))
    complete(other_vip, ids, max_tokens=1)
    settled(gateway, other, partial)
    reply = complete(other_vip, ids[:2 * BLOCK - 3], max_tokens=1, request_id="part")
    tokens = gateway.receipt("part")["tokens"]
    assert tokens["predicted_cached"] == BLOCK < tokens["reported_cached"] == 2 * BLOCK - 4
    assert gateway.find(other)["endpoints"][0]["kv"]["signal"] in ("ok", "quiet")
