"""Small servers for probes to ask, on loopback, each a thread of the test.

    with HttpTarget() as target:                 # tls=folder: with a certificate made there
        target.answer = (200, "ready")
        gateway.create(rule(vip, [target.address], probetype="http", ...))
        wait_until(lambda: target.asked, 10, "a probe")
        assert target.asked[0].headers["host"] == target.address

HttpTarget notes every request and how many it had at a time; `hold` keeps answers back while it is set.
DatagramTarget and LineTarget answer what they are sent with `answer` (None: nothing).
"""

import collections
import socket
import ssl
import subprocess
import threading

Asked = collections.namedtuple("Asked", "method target version headers")


def certificate(folder):
    """A certificate that signs itself, and its key: the paths of both."""
    key, cert = str(folder / "probe.key"), str(folder / "probe.crt")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "1", "-subj", "/CN=probe target", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    return cert, key


class _Target:
    """A socket with a thread; leaving the `with` block ends both."""

    kind = socket.SOCK_STREAM

    def __init__(self, host="127.0.0.1", port=0):
        self.host = host
        self.port = port
        self.socket = None
        self.start()

    def start(self):
        """Again on the same address after stop()."""
        self.socket = socket.socket(socket.AF_INET, self.kind)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((self.host, self.port))
        self.port = self.socket.getsockname()[1]
        if self.kind == socket.SOCK_STREAM:
            self.socket.listen(64)
        threading.Thread(target=self._serve, args=(self.socket,), daemon=True).start()

    def stop(self):
        if self.socket is not None:
            taken, self.socket = self.socket, None
            try:
                taken.shutdown(socket.SHUT_RDWR)  # wakes the thread
            except OSError:
                pass
            taken.close()

    @property
    def address(self):
        return f"{self.host}:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _serve(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._guarded, args=(client,), daemon=True).start()

    def _guarded(self, client):
        with client:
            client.settimeout(20)
            try:
                self._talk(client)
            except OSError:
                pass  # the peer had enough


class HttpTarget(_Target):
    def __init__(self, host="127.0.0.1", port=0, tls=None):
        self.answer = (200, "")
        self.only_host = None  # answered 404 to any other Host
        self.asked = []
        self.names = []  # by SNI
        self.busy = self.most_busy = 0
        self.hold = threading.Event()
        self.go_on = threading.Condition()
        self._lock = threading.Lock()
        self._tls = None
        if tls is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(*certificate(tls))
            self._tls.sni_callback = lambda _socket, name, _context: self.names.append(name)
        super().__init__(host, port)

    def release(self):
        """Ends `hold` and lets those go that it holds."""
        with self.go_on:
            self.hold.clear()
            self.go_on.notify_all()

    def stop(self):
        super().stop()
        self.release()

    def _talk(self, client):
        if self._tls is not None:
            client = self._tls.wrap_socket(client, server_side=True)
        head = b""
        while b"\r\n\r\n" not in head:
            data = client.recv(4096)
            if not data:
                return
            head += data
        first, *lines = head.split(b"\r\n\r\n")[0].decode().split("\r\n")
        method, target, version = first.split(" ")
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        with self._lock:
            self.asked.append(Asked(method, target, version, headers))
            self.busy += 1
            self.most_busy = max(self.most_busy, self.busy)
        try:
            with self.go_on:
                self.go_on.wait_for(lambda: not self.hold.is_set(), 30)
        finally:
            # Before the answer is out: who has it may ask again at once.
            with self._lock:
                self.busy -= 1
        status, body = self.answer
        if self.only_host not in (None, headers.get("host")):
            status, body = 404, "no such host"
        text = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        client.sendall((text + ("" if method == "HEAD" else body)).encode())


class LineTarget(_Target):
    """Says `answer` when something came."""

    def __init__(self, answer, **more):
        self.answer = answer
        self.asked = []
        super().__init__(**more)

    def _talk(self, client):
        self.asked.append(client.recv(4096))
        if self.answer is not None:
            client.sendall(self.answer)
        client.recv(4096)


class DatagramTarget(LineTarget):
    kind = socket.SOCK_DGRAM

    def _serve(self, listener):
        while True:
            try:
                data, peer = listener.recvfrom(4096)
            except OSError:
                return
            if self.socket is None:
                return
            self.asked.append(data)
            if self.answer is not None:
                listener.sendto(self.answer, peer)
