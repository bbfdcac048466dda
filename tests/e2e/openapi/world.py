"""A gateway with tokens, its document, and requests that are checked against it."""

import json
import os
import socket
import urllib.parse

from described import DOCUMENT_PATH, Document, fill
from gateway import API, Gateway
from harness import RawClient, request_bytes

TOKENS = {"admin": "admin-token", "viewer": "viewer-token"}
# Live state: it changes by itself.
LIVE = ("state", "inActiveEP", "reason", "counter", "inflight", "queued", "breaker", "kv")
# What a refused change must leave as it was. Those that the gateway has are read.
SETTINGS = ("/config/loadbalancer/all", "/config/endpoint/all", "/config/metrics", "/config/params", "/config/cors",
            "/maintenance", "/config/gpu/status")


class Client(RawClient):
    """A connection from an address of its choice: a guesser of tokens is limited by address."""

    def __init__(self, address, source, limit_s=20.0):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=limit_s, source_address=(source, 0))
        self.buffer = b""
        self.is_eof = False


class World:
    def __init__(self, folder):
        path = os.path.join(folder, "tokens")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write("".join(f"{role} {role} {token}\n" for role, token in TOKENS.items()))
        self.gateway = Gateway(folder, flags=["--api-token-file", path])
        self.document = Document(json.loads(self.ask("GET", DOCUMENT_PATH, role=None).body))
        self.sent = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gateway.stop()

    def ask(self, method, target, body=None, role="admin", headers=(), source="127.0.0.1"):
        """One request, one reply; None when the connection ended without one."""
        fields = list(headers)
        if role is not None:
            fields.append(("Authorization", f"Bearer {TOKENS.get(role, role)}"))
        return self.exchange(request_bytes(method, target, body, fields), method, source)

    def exchange(self, data, method, source="127.0.0.1"):
        with Client(self.gateway.api, source) as client:
            try:
                client.send(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before the body was read; the reply is there
            reply = client.read_head()
            if reply is None or (reply.header("Content-Type") or "").startswith("text/event-stream"):
                return reply
            if method != "HEAD" and reply.header("content-length") is not None:
                reply.body = client.read_exactly(int(reply.header("content-length")))
            return reply

    def check(self, operation, target, reply, role="admin"):
        """Every answer is declared, and none is a fault of the gateway's."""
        assert reply is not None, f"{operation.method} {target[:300]}: no answer"
        self.sent += 1
        self.document.check(operation.method, target, reply)
        allowed = {501, 503, 507} if not operation.is_absent else {501}
        assert reply.status < 500 or reply.status in allowed, f"{target}: {reply.status} {reply.body[:300]}"
        needed = operation.body.get("x-sluice-role")
        if role is None and not operation.is_public:
            assert reply.status == 401, f"{operation} without a token: {reply.status}"
        if role == "viewer" and needed == "admin":
            assert reply.status == 403, f"{operation} by a viewer: {reply.status}"
        if role == "viewer" and needed == "viewer":
            assert reply.status != 403, f"{operation} by a viewer: {reply.status}"

    def state(self):
        """What the operator has configured."""
        out = {}
        for path in SETTINGS:
            operation = self.document.find("GET", API + path)
            if operation is None or operation.is_absent:
                continue
            value = json.loads(self.ask("GET", API + path).body)
            for entry in value.get("lbAttr", []):
                entry["endpoints"] = [{k: v for k, v in e.items() if k not in LIVE} for e in entry["endpoints"]]
                entry.pop("effective")
                entry.pop("warnings")
            for entry in value.get("Attr", []):
                for name in ("minDelay", "avgDelay", "maxDelay", "currState", "reason"):
                    entry.pop(name, None)
            for name in ("in_flight_requests", "drain_deadline_exceeded"):
                value.pop(name, None)
            out[path] = value
        return out

    def leave_maintenance(self):
        operation = self.document.find("PUT", f"{API}/maintenance")
        if operation and not operation.is_absent:
            assert self.ask("PUT", f"{API}/maintenance", {"enabled": False}).status == 200


def target_of(operation, path_values, query):
    target = fill(operation.path, path_values)
    return target + ("?" + urllib.parse.urlencode(query) if query else "")
