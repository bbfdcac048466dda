"""An engine that does exactly what a test says, byte by byte, and counts who connects.

    with RawEngine(lambda call: call.reply(400, {"error": "no"})) as engine:
        gateway.create(rule(vip, [engine.address]))
        ...
        assert engine.accepts == 1

`script` is called with a Call for every request, on a thread of its connection; when it returns, the
next request is read, unless it closed the connection. shut() closes the port and leaves connections
as they are; open() listens on the same port again.
"""

import json
import socket
import threading

from gateway import free_port


class Call:
    """One request, and the connection to answer it on."""

    def __init__(self, engine, conn, head, body):
        self.engine, self.conn, self.head, self.body = engine, conn, head, body
        self.path = head.split(b" ", 2)[1].decode()

    def json(self):
        return json.loads(self.body)

    def send(self, data):
        self.conn.sendall(data)

    def reply(self, status=200, body=None, headers=()):
        payload = json.dumps({} if body is None else body).encode()
        fields = "".join(f"{k}: {v}\r\n" for k, v in headers)
        self.send(f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{fields}"
                  f"Content-Length: {len(payload)}\r\n\r\n".encode() + payload)

    def stream(self, *events):
        """The head of a stream, and events; it stays open."""
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n")
        for event in events:
            self.event(event)

    def event(self, text):
        data = b"data: " + text.encode() + b"\n\n"
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def end_stream(self):
        self.event("[DONE]")
        self.send(b"0\r\n\r\n")

    def hang(self):
        """Until the other side leaves."""
        try:
            while self.conn.recv(4096):
                pass
        except OSError:
            pass

    def close(self):
        self.conn.close()


class RawEngine:
    def __init__(self, script, start=True):
        self.script = script
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.accepts = 0
        self.calls = []
        self._conns = []
        self._listener = None
        if start:
            self.open()

    def open(self):
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", self.port))
        self._listener.listen(512)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def shut(self):
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
            listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shut()
        for conn in self._conns:
            conn.close()

    def _accept(self, listener):
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            self.accepts += 1
            self._conns.append(conn)
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn):
        buffer = b""
        try:
            while True:
                while b"\r\n\r\n" not in buffer:
                    data = conn.recv(65536)
                    if not data:
                        conn.close()
                        return
                    buffer += data
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n")
                               if line.lower().startswith(b"content-length:")), 0)
                while len(buffer) < length:
                    buffer += conn.recv(65536)
                call = Call(self, conn, head, buffer[:length])
                buffer = buffer[length:]
                self.calls.append(call)
                self.script(call)
        except OSError:
            conn.close()
