"""Helpers for end-to-end tests: processes, a raw HTTP client, simulated engines.

    from harness import start_sim, wait_until
    with start_sim("--block-size", "16") as engine:         # bin/sluice-sim vllm, a free port
        reply = engine.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 2})
        assert reply.status == 200 and reply.json()["usage"]["prompt_tokens"] == 3

- Process: a child that says `ready key=value ...` on its standard output; ended with its test.
- RawClient: one connection as plain bytes, nothing hidden; read_reply() parses what came.
- Sim: a Process with its addresses and one-request helpers; every request has its own connection.
- wait_until: waits for a condition, with a limit and without a fixed sleep.

SLUICE_BIN_DIR names the folder of the programs. Loopback only, no fixed ports.
"""

import dataclasses
import json
import os
import pathlib
import queue
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
VECTORS = ROOT / "tests" / "vectors"
MINI_TOKENIZER = VECTORS / "tokenizers" / "mini"


def binary(name):
    """The path of a program of the build."""
    folder = os.environ.get("SLUICE_BIN_DIR", str(ROOT / "build" / "release" / "bin"))
    path = pathlib.Path(folder).resolve() / name
    if not path.exists():
        raise FileNotFoundError(f"{path}: build it, or set SLUICE_BIN_DIR")
    return str(path)


def wait_until(condition, limit_s=5.0, what="condition"):
    """Returns the first true result of `condition`; fails after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} not met within {limit_s} s")
        time.sleep(0.005)


class Process:
    """A child process; leaving the `with` block ends it."""

    def __init__(self, argv, env=None, ready="ready", limit_s=30.0):
        self._stderr = tempfile.TemporaryFile()
        self.child = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=self._stderr, env={**os.environ, **(env or {})})
        self.lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.ready = self._await_ready(ready, limit_s) if ready else {}

    def _read(self):
        for line in self.child.stdout:
            self.lines.put(line.decode(errors="replace").rstrip("\n"))
        self.lines.put(None)

    def _await_ready(self, word, limit_s):
        deadline = time.monotonic() + limit_s
        while True:
            try:
                line = self.lines.get(timeout=max(0.001, deadline - time.monotonic()))
            except queue.Empty:
                self.kill()
                raise AssertionError(f"not ready within {limit_s} s\n{self.stderr()}") from None
            if line is None:
                raise AssertionError(f"ended with {self.child.wait()}\n{self.stderr()}")
            if line.split(" ", 1)[0] == word:
                return dict(p.split("=", 1) for p in line.split()[1:] if "=" in p)

    def stderr(self):
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")

    def wait(self, limit_s=10.0):
        return self.child.wait(limit_s)

    def stop(self, limit_s=10.0):
        """SIGTERM; returns the exit code."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self):
        if self.child.poll() is None:
            self.child.kill()
        return self.child.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.stop()
        finally:
            self._close()

    def _close(self):
        self._reader.join(5)
        self.child.stdout.close()
        self._stderr.close()


@dataclasses.dataclass
class Reply:
    """One HTTP reply as it came over the wire."""

    status_line: str
    headers: list  # [name, value] in order, names as sent
    body: bytes = b""
    chunks: list = dataclasses.field(default_factory=list)  # HTTP chunks, without framing
    interim: list = dataclasses.field(default_factory=list)  # status lines of 1xx replies
    is_complete: bool = True  # False: the connection ended inside it

    @property
    def status(self):
        return int(self.status_line.split()[1])

    def header(self, name):
        for key, value in self.headers:
            if key.lower() == name.lower():
                return value
        return None

    def json(self):
        return json.loads(self.body)

    def events(self):
        """The data of each server-sent event, in order."""
        return [e[6:] for e in self.body.decode().split("\n\n") if e.startswith("data: ")]


class RawClient:
    """A TCP connection that sends and reads bytes."""

    def __init__(self, address, limit_s=10.0):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=limit_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.is_eof = False

    def send(self, data):
        self.socket.sendall(data)

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def read_more(self, limit_s=None):
        """Reads once into the buffer; False at the end of the stream (a reset counts as one)."""
        if limit_s is not None:
            self.socket.settimeout(limit_s)
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.is_eof = True
            return False
        self.buffer += data
        return True

    def read_until(self, mark):
        while mark not in self.buffer:
            if not self.read_more():
                return None
        head, self.buffer = self.buffer.split(mark, 1)
        return head

    def read_exactly(self, n):
        while len(self.buffer) < n:
            if not self.read_more():
                data, self.buffer = self.buffer, b""
                return data
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def read_head(self):
        """Status line and headers of the next reply; None when the connection ended before."""
        head = self.read_until(b"\r\n\r\n")
        if head is None:
            return None
        lines = head.decode("latin-1").split("\r\n")
        return Reply(lines[0], [re.split(r":\s*", l, maxsplit=1) for l in lines[1:]])

    def read_reply(self, method="GET"):
        interim = []
        while True:
            reply = self.read_head()
            if reply is None or reply.status >= 200:
                break
            interim.append(reply.status_line)
        if reply is None:
            return None
        reply.interim = interim
        if method == "HEAD" or reply.status in (204, 304):
            return reply
        if (reply.header("transfer-encoding") or "").lower() == "chunked":
            self._read_chunks(reply)
        elif (length := reply.header("content-length")) is not None:
            reply.body = self.read_exactly(int(length))
            reply.is_complete = len(reply.body) == int(length)
        else:
            while self.read_more():
                pass
            reply.body, self.buffer = self.buffer, b""
        return reply

    def _read_chunks(self, reply):
        while True:
            size = self.read_until(b"\r\n")
            if size is None:
                reply.is_complete = False
                return
            n = int(size.split(b";")[0], 16)
            data = self.read_exactly(n + 2)
            if len(data) < n + 2:
                reply.is_complete = False
                return
            if n == 0:
                return
            reply.chunks.append(data[:-2])
            reply.body += data[:-2]

    def end_state(self, limit_s=0.06):
        """`open` if nothing comes within the time, `eof` if the peer closed, `data` otherwise."""
        if self.buffer:
            return "data"
        try:
            return "data" if self.read_more(limit_s) else "eof"
        except TimeoutError:
            return "open"


def request_bytes(method, path, body=None, headers=(), version="HTTP/1.1", host="127.0.0.1"):
    """A request head with Host and, for a body, Content-Type and Content-Length, then the body."""
    data = b""
    fields = [("Host", host), *headers]
    if body is not None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if not any(k.lower() == "content-type" for k, _ in fields):
            fields.append(("Content-Type", "application/json"))
        fields.append(("Content-Length", str(len(data))))
    head = f"{method} {path} {version}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields)
    return head.encode() + b"\r\n" + data


# By address: called with (method, path, reply) for what exchange() gets from it.
watchers = {}


def exchange(address, method, path, body=None, headers=(), limit_s=10.0):
    """One request on a connection of its own."""
    with RawClient(address, limit_s) as client:
        client.send(request_bytes(method, path, body, headers))
        reply = client.read_reply(method)
    if address in watchers and reply is not None:
        watchers[address](method, path, reply)
    return reply


class Sim(Process):
    """A simulated engine; restart() ends it at once and starts it anew at the same address."""

    def __init__(self, argv, env=None):
        self.argv, self.env = list(argv), env
        super().__init__(self.argv, env=env)

    def restart(self, *flags):
        """A new process with an empty cache; `flags` come after those of the first."""
        port = self.address.rsplit(":", 1)[1]
        self.kill()
        self._close()
        super().__init__([*self.argv, "--port", port, *map(str, flags)], env=self.env)

    @property
    def address(self):
        return self.ready["http"]

    @property
    def pub(self):
        return self.ready["pub"].split(",")

    @property
    def replay(self):
        return self.ready["replay"].split(",")

    def get(self, path, headers=(), **kw):
        return exchange(self.address, "GET", path, None, headers, **kw)

    def post(self, path, body=None, headers=(), **kw):
        return exchange(self.address, "POST", path, {} if body is None else body, headers, **kw)

    def client(self, limit_s=10.0):
        return RawClient(self.address, limit_s)

    def arm(self, fault, count=1):
        """Makes the next `count` generation requests fail (tests/sim/README.md lists how)."""
        assert self.post("/sim/fault", {"fault": fault, "count": count}).status == 200

    def cache(self, rank=0):
        """The findable blocks: {hash: copies}."""
        return {int(k): n for k, n in self.get("/sim/cache").json()[rank].items()}

    def requests(self):
        """What it was sent, oldest first: method, target, headers, body."""
        return self.get("/sim/requests").json()

    def metric(self, name, **labels):
        """The sum of the samples of vllm:`name` that have these labels."""
        total = 0.0
        for line in self.get("/metrics").body.decode().splitlines():
            m = re.match(r"vllm:(\w+)\{(.*)\} (\S+)$", line)
            if m and m[1] == name:
                have = dict(re.findall(r'(\w+)="([^"]*)"', m[2]))
                if all(have.get(k) == v for k, v in labels.items()):
                    total += float(m[3])
        return total


def events_config(**more):
    """--kv-events-config for free loopback ports."""
    return json.dumps({"enable_kv_cache_events": True, "endpoint": "tcp://[::ffff:127.0.0.1]:0",
                       "replay_endpoint": "tcp://127.0.0.1:0", **more})


def start_sim(*flags, env=None):
    """bin/sluice-sim vllm on a free port; use it in a `with`."""
    return Sim([binary("sluice-sim"), "vllm", "--port", "0", *map(str, flags)], env=env)


class TrtSim(Process):
    """A simulated TensorRT-LLM; restart() ends it and starts it anew at the same address."""

    def __init__(self, flags, env=None):
        self.flags, self.env = list(map(str, flags)), env
        super().__init__(self._argv("0"), env=env)

    def _argv(self, port):
        return [binary("sluice-sim"), "trtllm", "--port", port, *self.flags]

    @property
    def address(self):
        return self.ready["http"]

    def restart(self, *flags, while_down=None):
        """A new process with an empty cache; `flags` come after those of the first.

        `while_down` is called while nobody listens."""
        port = self.address.rsplit(":", 1)[1]
        self.stop()
        self._close()
        if while_down:
            while_down()
        self.flags += map(str, flags)
        super().__init__(self._argv(port), env=self.env)

    def get(self, path, headers=(), **kw):
        return exchange(self.address, "GET", path, None, headers, **kw)

    def post(self, path, body=None, headers=(), **kw):
        return exchange(self.address, "POST", path, {} if body is None else body, headers, **kw)

    def delete(self, path):
        return exchange(self.address, "DELETE", path)

    def client(self, limit_s=10.0):
        return RawClient(self.address, limit_s)

    def drain(self, limit_s=30.0):
        """What POST /kv_cache_events gives; the test is then a consumer of the events."""
        reply = self.post("/kv_cache_events", limit_s=limit_s)
        assert reply.status == 200, reply.body
        return reply.json()

    def drains(self):
        """count, overlaps, in_flight, max_in_flight, events, lost, overflowed, reads {...}."""
        return self.get("/sim/drains").json()

    def cache(self, rank=0):
        """The full blocks of the largest window: {hash as text: cache level}."""
        return self.get("/sim/cache").json()[rank]

    def requests(self):
        """What it was sent, oldest first: method, target, headers, body."""
        return self.get("/sim/requests").json()

    def arm(self, fault, count=1):
        """Makes the next `count` generation requests fail (tests/sim/README.md lists how)."""
        assert self.post("/sim/fault", {"fault": fault, "count": count}).status == 200

    def arm_drain(self, fault, count=1):
        """The same for drains: slow-head:MS, reset, close, status:N, cut-after:N, garbage."""
        assert self.post("/sim/drain_fault", {"fault": fault, "count": count}).status == 200

    def skip_ids(self, count, rank=0):
        """`count` event numbers that no reader will see: a gap."""
        assert self.post("/sim/skip", {"count": count, "rank": rank}).status == 200

    def add_events(self, *events):
        """Puts events into the ring as they are, their event_id included."""
        body = {"events": [json.dumps(e) for e in events]}
        assert self.post("/sim/events", body).status == 200


def start_trt(*flags, env=None):
    """bin/sluice-sim trtllm on a free port with KV events on; use it in a `with`."""
    return TrtSim(["--event-buffer-max-size", "65536", *flags], env)
