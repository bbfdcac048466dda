"""After all of it: whether wrong blocks are in any cache. Last, because it ends with wrong ones."""
from answers import Answer, say


def test_every_prompt_asked_before_is_still_answered_right(pair):
    wrong = []
    asked = list(pair.asked)
    for ask, want in asked:
        for engine in (pair.decode, pair.prefill):
            reply, _ = pair.send(engine.address, ask)
            if problem := pair.differs(Answer(reply, ask[1]), want):
                wrong.append((engine.name, problem))
    say([f"caches afterwards: {len(wrong)} wrong of {2 * len(asked)}, furthest log-probability "
         f"{pair.furthest:.4g}", *map(str, wrong)])
    assert not wrong


def test_wrong_blocks_would_have_been_seen(pair):
    asked = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
             "remote_block_ids": None, "remote_host": None, "remote_port": None}
    pair.clear()
    path, body = pair.ids(700)
    body["max_tokens"] = 24
    ask = (path, body)
    want = pair.right(ask)
    first, _ = pair.send(pair.prefill.address, pair.ids(700), kv_transfer_params=asked)
    foreign = first.json()["kv_transfer_params"]
    reply, _ = pair.send(pair.decode.address, ask, kv_transfer_params=foreign)
    late, _ = pair.send(pair.decode.address, ask)
    seen = [pair.differs(Answer(r, body), want) for r in (reply, late)]
    say([f"with another prompt's blocks: {seen}"])
    assert all(seen), "the engine would hide wrong blocks: nothing here proves anything"
    pair.clear()
