"""A field that only an orchestrator may set does not reach an engine when a client sends it."""
import contextlib
import json
import socket
import threading

from gateway import rule
from workload import MODEL


class Relay:
    """Passes connections on to `target` and keeps what the clients sent."""

    def __init__(self, target):
        host, port = target.split(":")
        self.target = (host, int(port))
        self.sent = bytearray()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                engine = socket.create_connection(self.target)
                for args in ((client, engine, True), (engine, client, False)):
                    threading.Thread(target=self.pump, args=args, daemon=True).start()

    def pump(self, source, sink, is_kept):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if is_kept:
                    self.sent += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.close()


def test_a_clients_kv_transfer_params_do_not_reach_a_plain_engine(stand):
    relay = Relay(stand.engines[0].address)
    try:
        body = rule(stand.gateway.vip(), [relay.address])
        stand.gateway.create(body)
        arguments = body["serviceArguments"]
        vip = f"{arguments['externalIP']}:{arguments['port']}"
        weapon = {"do_remote_prefill": True, "remote_block_ids": None, "remote_engine_id": "x"}
        chat = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}],
                "max_tokens": 3, "temperature": 0}
        text = {"model": MODEL, "prompt": "hello there", "max_tokens": 3, "temperature": 0}
        for path, plain in (("/v1/chat/completions", chat), ("/v1/completions", text)):
            want, _ = stand.send(vip, path, plain)
            before = len(relay.sent)
            got, _ = stand.send(vip, path, {**plain, "kv_transfer_params": weapon})
            arrived = bytes(relay.sent[before:])
            assert (want.status, got.status) == (200, 200), got.text
            assert got.text == want.text
            head, sent = arrived.split(b"\r\n\r\n", 1)
            assert path.encode() in head and json.loads(sent) == plain
    finally:
        relay.close()
    assert stand.engines[0].is_ready()
    stand.settle()
