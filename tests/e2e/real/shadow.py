"""What one engine holds, learnt from its events by means of the test's own.

A second reader of the events, which shares nothing with the gateway but the wire: copies are counted,
chains are keyed by token ids and salt. It is asked what the engine will find of a prompt, and when
the events of a request have all come.
"""
import collections
import time

import zmq

from kv_events import Subscriber, replay


class Shadow:
    def __init__(self, engine, block):
        self.engine = engine
        self.block = block
        self.live = None
        self.restart()

    def restart(self):
        """The engine is a new process: its cache is empty and its numbers begin at 0."""
        self.close()
        self.copies = collections.Counter()
        self.held = 0
        self.children = {}  # (parent hash, tokens, salt) -> hash
        self.next_sequence = 0
        self.last_batch_at = time.monotonic()
        self.stored = self.removed = 0
        self.live = Subscriber(self.engine.pub)
        self.catch_up()

    def close(self):
        if self.live is not None:
            self.live.close()
            self.live = None

    def catch_up(self):
        """What was published before the subscription came through."""
        for batch in replay(self.engine.replay, self.next_sequence) or []:
            self.take(batch)

    def drain(self):
        """Takes what has come; True when nothing was waiting."""
        is_quiet = True
        while self.live.socket.poll(0, zmq.POLLIN):
            is_quiet = False
            self.take(self.live.next(0))
        return is_quiet

    def take(self, batch):
        if batch.sequence < self.next_sequence:
            return  # replayed and live
        if batch.sequence > self.next_sequence:
            self.catch_up()
            if batch.sequence != self.next_sequence:
                assert batch.sequence < self.next_sequence, "the engine's events have a hole"
                return
        self.next_sequence += 1
        self.last_batch_at = time.monotonic()
        for event in batch.events():
            self.apply(event)

    def apply(self, event):
        kind = event["type"]
        if kind == "AllBlocksCleared":
            self.copies.clear()
            self.held = 0
        elif kind == "BlockRemoved":
            for h in event["block_hashes"]:
                assert self.copies[h] > 0, "removed more often than stored"
                self.copies[h] -= 1
                self.held -= self.copies[h] == 0
                self.removed += 1
        else:
            size, parent = event["block_size"], event["parent_block_hash"]
            assert size == self.block
            assert len(event["token_ids"]) == size * len(event["block_hashes"])
            extras = event.get("extra_keys") or [None] * len(event["block_hashes"])
            for i, h in enumerate(event["block_hashes"]):
                tokens = tuple(event["token_ids"][i * size:(i + 1) * size])
                key = (parent, tokens, tuple(extras[i]) if extras[i] else ())
                assert self.children.setdefault(key, h) == h, "one chain, two hashes"
                self.held += self.copies[h] == 0
                self.copies[h] += 1
                self.stored += 1
                parent = h

    def prefix(self, tokens, salt=None):
        """Blocks of `tokens` held from the beginning on."""
        parent, n = None, 0
        while (n + 1) * self.block <= len(tokens):
            extra = (salt,) if salt and n == 0 else ()
            parent = self.children.get(
                (parent, tuple(tokens[n * self.block:(n + 1) * self.block]), extra))
            if parent is None or self.copies[parent] == 0:
                break
            n += 1
        return n

    def findable(self, prompt, salt=None):
        """Blocks the engine will find of a prompt: its last token is always computed."""
        return self.prefix(prompt[:-1], salt)
