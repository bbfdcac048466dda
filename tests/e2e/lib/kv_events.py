"""vLLM's KV events as a subscriber sees them: live messages, replay, and an index by counting.

    live = Subscriber(engine.pub[0])
    batches = replay(engine.replay[0], 0)           # [Batch, ...], everything from sequence 0
    index = Index(); index.apply(batches)
    index.cached_tokens(prompt, block_size=32)      # what the engine will report
"""

import collections
import dataclasses

import msgpack
import zmq

END = b"\xff" * 8


@dataclasses.dataclass
class Batch:
    topic: bytes
    sequence: int
    payload: bytes

    @property
    def decoded(self):
        return msgpack.unpackb(self.payload, strict_map_key=False)

    @property
    def rank(self):
        return self.decoded[2]

    def events(self):
        """Events as dicts, whichever way they were encoded."""
        return [e if isinstance(e, dict) else _from_array(e) for e in self.decoded[1]]


_FIELDS = {
    "BlockStored": ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id",
                    "medium", "lora_name", "extra_keys"],
    "BlockRemoved": ["block_hashes", "medium"],
    "AllBlocksCleared": [],
}


def _from_array(event):
    fields = _FIELDS[event[0]]
    assert len(event) == 1 + len(fields), "arrays are never shortened"
    return {"type": event[0], **dict(zip(fields, event[1:]))}


class Subscriber:
    def __init__(self, address, topic=b"", context=None):
        self.socket = (context or zmq.Context.instance()).socket(zmq.SUB)
        self.socket.setsockopt(zmq.RCVHWM, 100000)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SUBSCRIBE, topic)
        self.socket.connect(address)

    def next(self, limit_s=5.0):
        """The next batch, None when none came within the time."""
        if not self.socket.poll(limit_s * 1000):
            return None
        frames = self.socket.recv_multipart()
        assert len(frames) == 3 and len(frames[1]) == 8
        return Batch(frames[0], int.from_bytes(frames[1], "big"), frames[2])

    def close(self):
        self.socket.close()


def replay(address, start=0, limit_s=5.0, request=None):
    """All batches from `start`, up to the end marker; None when no answer came."""
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.connect(address)
    out = []
    try:
        socket.send_multipart(request or [b"", start.to_bytes(8, "big")])
        while socket.poll(limit_s * 1000):
            frames = socket.recv_multipart()
            assert frames[0] == b"" and len(frames) in (3, 4)
            topic = frames[1] if len(frames) == 4 else None
            if frames[-2] == END:
                assert frames[-1] == b"" and topic in (b"", None)
                return out
            out.append(Batch(topic, int.from_bytes(frames[-2], "big"), frames[-1]))
        return None
    finally:
        socket.close()


class Index:
    """What one rank holds: copies are counted, for each has its own stored and removed event."""

    def __init__(self):
        self.copies = collections.Counter()
        self.children = {}  # (parent hash, tokens) -> hash
        self.next_sequence = 0

    def apply(self, batches):
        for batch in batches:
            assert batch.sequence == self.next_sequence
            self.next_sequence += 1
            for event in batch.events():
                self._apply(event)

    def _apply(self, event):
        if event["type"] == "AllBlocksCleared":
            self.copies.clear()
        elif event["type"] == "BlockRemoved":
            for h in event["block_hashes"]:
                self.copies[h] -= 1
                assert self.copies[h] >= 0, "removed more often than stored"
        else:
            size, parent = event["block_size"], event["parent_block_hash"]
            assert len(event["token_ids"]) == size * len(event["block_hashes"])
            for i, h in enumerate(event["block_hashes"]):
                tokens = tuple(event["token_ids"][i * size:(i + 1) * size])
                assert self.children.setdefault((parent, tokens), h) == h
                self.copies[h] += 1
                parent = h

    def cached_tokens(self, prompt, block_size):
        """Tokens of the prompt an engine finds: the last token is always computed."""
        parent, n = None, 0
        while (n + 1) * block_size <= len(prompt) - 1:
            tokens = tuple(prompt[n * block_size:(n + 1) * block_size])
            parent = self.children.get((parent, tokens))
            if parent is None or self.copies[parent] == 0:
                break
            n += 1
        return n * block_size

    def held(self):
        return {h: n for h, n in self.copies.items() if n > 0}
