"""The gateway under test: bin/sluiced on free loopback ports with a state of its own.

    from gateway import Gateway, rule
    with Gateway(tmp_path) as gw:
        gw.create(rule(gw.vip(), [engine.address], kvExactMode=3))
        reply = gw.post(gw.vip_address, "/v1/completions", {...})
        receipt = gw.flows()[0]

Every answer of the management interface is compared with the OpenAPI document that the gateway serves.
"""

import json
import os
import random
import signal
import socket
import subprocess
import time

from described import DOCUMENT_PATH, Document
from harness import binary, exchange, wait_until, watchers

API = "/netlox/v1"


def free_port(host="127.0.0.1"):
    """A port nobody listens on now.

    Below the range of outgoing connections, of which one could take it before its user listens.
    """
    for _ in range(1000):
        port = random.randrange(10_000, 32_000)
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
            try:
                s.bind((host, port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")


def split_address(address):
    host, port = address.rsplit(":", 1)
    return host.strip("[]"), int(port)


def rule(vip, endpoints, **arguments):
    """A rule's body: `vip` and `endpoints` are HOST:PORT; an endpoint may be (HOST:PORT, {fields})."""
    ip, port = split_address(vip)
    rows = []
    for endpoint in endpoints:
        address, fields = endpoint if isinstance(endpoint, tuple) else (endpoint, {})
        host, target = split_address(address)
        rows.append({"endpointIP": host, "targetPort": target, "weight": 1, **fields})
    return {"serviceArguments": {"externalIP": ip, "port": port, "protocol": "tcp", "mode": 4,
                                 "sel": 0, **arguments},
            "endpoints": rows}


class Gateway:
    """A running sluiced; leaving the `with` block stops it."""

    _documents = {}

    def __init__(self, folder, tokenizers=None, flags=(), start=True, env=None):
        self.folder = folder
        self.env = {**os.environ, **(env or {})}
        self.tokenizers = tokenizers
        self.flags = list(flags)
        self.api = f"127.0.0.1:{free_port()}"
        self.log_path = os.path.join(folder, "sluiced.log")
        self.child = None
        if start:
            self.start()

    def start(self):
        argv = [binary("sluiced"), "--api-listen", self.api, "--state",
                os.path.join(self.folder, "sluice.db"), "--workers", "2", *self.flags]
        if self.tokenizers:
            argv += ["--tokenizers", str(self.tokenizers)]
        self.log_file = open(self.log_path, "ab")
        self.child = subprocess.Popen(argv, stderr=self.log_file, env=self.env)
        wait_until(self.is_up, 30, "gateway ready")
        watchers[self.api] = self.document().check

    def document(self):
        """The OpenAPI document, read once a program."""
        key = (path := binary("sluiced"), os.stat(path).st_mtime_ns)
        if key not in self._documents:
            self._documents[key] = Document(exchange(self.api, "GET", DOCUMENT_PATH).json())
        return self._documents[key]

    def is_up(self):
        if self.child.poll() is not None:
            raise AssertionError(f"sluiced ended with {self.child.returncode}\n{self.log()}")
        try:
            return exchange(self.api, "GET", f"{API}/version").status == 200
        except OSError:
            return False

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def stop(self, limit_s=60):
        """SIGTERM; the exit code."""
        if self.child is None:
            return None
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        try:
            code = self.child.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.child.kill()
            raise
        self.log_file.close()
        self.child = None
        watchers.pop(self.api, None)
        return code

    def kill(self):
        """SIGKILL, as a crash."""
        self.child.kill()
        self.child.wait()
        self.log_file.close()
        self.child = None
        watchers.pop(self.api, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @staticmethod
    def vip(host="127.0.0.1"):
        """A VIP:port for a new rule."""
        return f"[{host}]:{free_port(host)}" if ":" in host else f"{host}:{free_port(host)}"

    # --- the management interface
    def get(self, path):
        return exchange(self.api, "GET", API + path)

    def create(self, body):
        reply = exchange(self.api, "POST", f"{API}/config/loadbalancer", body)
        assert reply.status == 200, reply.body
        return self.find(body)

    def delete(self, path):
        return exchange(self.api, "DELETE", API + path)

    def rules(self):
        return self.get("/config/loadbalancer/all").json()["lbAttr"]

    def find(self, body):
        """The read-back of the rule with this body's VIP and model."""
        want = body["serviceArguments"]
        keys = ("externalIP", "port", "host", "path_prefix", "model_name")
        for one in self.rules():
            have = one["serviceArguments"]
            if all(have.get(k, "") == want.get(k, "") for k in keys):
                return one
        raise AssertionError("the rule cannot be read back")

    def flows(self, **query):
        """Receipts, newest first."""
        text = "&".join(f"{k}={v}" for k, v in query.items())
        return self.get(f"/status/flows?{text}").json()["flows"]

    def receipt(self, request_id):
        """The receipt of one request; it is written after the last byte, so it may be waited for."""
        def found():
            return next((f for f in self.flows(limit=2000) if f["id"] == request_id), None)
        return wait_until(found, 5, f"receipt {request_id}")

    def metric(self, name, **labels):
        """The sum of the samples of `name` that have these labels."""
        total = 0.0
        for line in self.get("/metrics").body.decode().splitlines():
            if not line.startswith(name + "{") and not line.startswith(name + " "):
                continue
            if all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def explain(self, question):
        return exchange(self.api, "POST", f"{API}/config/ai/route/explain", question)

    def wait_signal(self, body, signal="ok", limit_s=15):
        """Until the KV signal of every endpoint of the rule is `signal` (or one of several)."""
        wanted = (signal,) if isinstance(signal, str) else signal
        def all_there():
            return all(e["kv"]["signal"] in wanted for e in self.find(body)["endpoints"])
        wait_until(all_there, limit_s, f"kv signal {wanted}")

    def wait_blocks(self, body, address, at_least, limit_s=10):
        """Until the inventory of an endpoint holds so many blocks."""
        host, port = split_address(address)
        def enough():
            for e in self.find(body)["endpoints"]:
                if e["endpointIP"] == host and e["targetPort"] == port:
                    return e["kv"]["blocks"] >= at_least
            return False
        wait_until(enough, limit_s, f"{at_least} blocks of {address}")


def chat(address, messages, model="tiny", request_id=None, **more):
    headers = [("X-Request-Id", request_id)] if request_id else []
    return exchange(address, "POST", "/v1/chat/completions",
                    {"model": model, "messages": messages, **more}, headers, limit_s=60)


def complete(address, prompt, model="tiny", request_id=None, **more):
    headers = [("X-Request-Id", request_id)] if request_id else []
    return exchange(address, "POST", "/v1/completions",
                    {"model": model, "prompt": prompt, "max_tokens": 4, **more}, headers, limit_s=60)


__all__ = ["Gateway", "rule", "free_port", "split_address", "chat", "complete", "json", "time"]
