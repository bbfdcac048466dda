"""Stands in front of an engine and may change what it answers, or answer itself.

    with Via(engine, change=lambda reply: reply.body) as via:   # bytes of the body instead
        gateway.create(pd_rule(vip, [via], [decode]))

Only answers to generation requests are changed; everything else passes.
"""

import json

from harness import RawClient
from raw_engine import RawEngine


class Via(RawEngine):
    def __init__(self, engine, change):
        self.engine, self.change = engine, change
        super().__init__(self._pass_on)

    def _pass_on(self, call):
        with RawClient(self.engine.address, 60) as client:
            client.send(call.head + b"\r\n\r\n" + call.body)
            reply = client.read_reply()
        body = reply.body
        if call.path in ("/v1/completions", "/v1/chat/completions"):
            body = self.change(reply)
        kind = reply.header("Content-Type") or "application/json"
        call.send(f"{reply.status_line}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}"
                  "\r\n\r\n".encode() + body)


def params(reply):
    """The hand-off object of a prefill answer."""
    return json.loads(reply.body)["kv_transfer_params"]


def with_params(reply, value):
    """The answer's body with another hand-off object."""
    return json.dumps({**json.loads(reply.body), "kv_transfer_params": value}).encode()
