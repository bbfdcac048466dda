"""A TCP relay on loopback that counts: who connects to an engine, and how often.

    with Tap(engine.address) as tap:
        gateway.create(rule(vip, [tap.address]))
        ...
        assert tap.connects == 1

Bytes pass unchanged both ways, a half-close too; when one side resets, the other is closed.

With is_shut=True nobody gets in until open_up(): a connect waits, as towards a host that is too busy to
accept. hold() keeps what comes for the target back until pass_on(); `kept` says what is kept.
"""

import select
import socket
import threading


def split(address):
    host, port = address.removeprefix("tcp://").rsplit(":", 1)
    return host.strip("[]"), int(port)


def free_on(*hosts):
    """A port that is free on each of these addresses."""
    for _ in range(100):
        with socket.socket() as first:
            first.bind((hosts[0], 0))
            port = first.getsockname()[1]
            others = [socket.socket() for _ in hosts[1:]]
            try:
                for s, host in zip(others, hosts[1:]):
                    s.bind((host, port))
                return port
            except OSError:
                continue
            finally:
                for s in others:
                    s.close()
    raise AssertionError("no port is free on all of them")


class Tap:
    def __init__(self, target, host="127.0.0.1", port=0, is_shut=False):
        self.target = split(target)
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((host, port))
        self.listener.listen(0 if is_shut else 256)
        self.host, self.port = self.listener.getsockname()
        self.connects = 0
        self._lock = threading.Lock()
        self._pairs = set()
        self._passes = threading.Event()
        self._passes.set()
        self.kept = b""
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._fillers = [socket.create_connection((self.host, self.port))] if is_shut else []
        if not is_shut:
            self._thread.start()

    def open_up(self):
        """Lets in who waits."""
        for filler in self._fillers:
            self.listener.accept()[0].close()
            filler.close()
        self._fillers = []
        self.listener.listen(256)
        self._thread.start()

    def hold(self):
        self.kept = b""
        self._passes.clear()

    def pass_on(self):
        self._passes.set()

    @property
    def address(self):
        return f"{self.host}:{self.port}"

    @property
    def open(self):
        """Connections through it now."""
        with self._lock:
            return len(self._pairs)

    def drop(self):
        """Both sides of every connection through it see its end, as after an idle time."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            for s in pair:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            with self._lock:
                self.connects += 1
            threading.Thread(target=self._relay, args=(near,), daemon=True).start()

    def _relay(self, near):
        try:
            far = socket.create_connection(self.target)
        except OSError:
            near.close()
            return
        pair = (near, far)
        with self._lock:
            self._pairs.add(pair)
        for s in pair:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        other = {near: far, far: near}
        reading = [near, far]
        try:
            while reading:
                for s in select.select(reading, [], [])[0]:
                    data = s.recv(65536)
                    if data:
                        if s is near and not self._passes.is_set():
                            self.kept += data
                            self._passes.wait()
                        other[s].sendall(data)
                    else:
                        reading.remove(s)
                        other[s].shutdown(socket.SHUT_WR)
        except (OSError, ValueError):
            pass
        finally:
            with self._lock:
                self._pairs.discard(pair)
            near.close()
            far.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # shutdown() wakes the accept; close() alone would not.
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        self.pass_on()
        for filler in self._fillers:
            filler.close()
        self.drop()
