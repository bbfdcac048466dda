"""Many clients in one thread: what they ask, how they leave, and whether what they were told is right.

    crowd = Crowd(pools, clients=16, rate=300, seed=1)
    with crowd: ...
    crowd.counts, crowd.faults

Half of what is asked was asked before: a cache that went wrong is met again. Every text is compared
with what the pool's plain engine says; of an answer that broke off, the part that came.
"""

import asyncio
import collections
import dataclasses
import json
import random
import threading

from harness import request_bytes
from verdict import Right, Wrong, verdict

LIMIT_S = 60  # of one request; later is silence
MENU = 150
USERS = 20_000  # more than sessions are kept
KEPT_S = 5  # a connection is not used after so long: the gateway ends idle ones
WORDS = ("water stone river light engine table paper number garden window market summer winter letter "
         "bridge circle people little great small before after under between the a of and to in").split()
DONE = b"data: [DONE]\n\n"
LEAVES = ("upload", "sent", "waiting", "head", "text")


@dataclasses.dataclass
class Pool:
    name: str
    vip: str
    plain: str
    foreign: dict  # members of a body that only an orchestrator may set
    takes_many: bool  # more than one answer to a prompt
    menu: list = dataclasses.field(default_factory=list)
    right: dict = dataclasses.field(default_factory=dict)  # by place in the menu


class Line:
    """A connection, and what is read from it."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    @staticmethod
    async def to(address):
        host, port = address.rsplit(":", 1)
        return Line(*await asyncio.open_connection(host, int(port), limit=1 << 22))

    def close(self, is_rude=False):
        if is_rude:
            self.writer.transport.abort()
        else:
            self.writer.close()

    async def head(self):
        """Status and headers; None when the connection ended instead."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as e:
            if e.partial:
                raise Wrong(f"a head that ends: {e.partial[:200]!r}") from None
            return None
        except ConnectionError:
            return None
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        if not first.startswith("HTTP/1.1 "):
            raise Wrong(f"no status line: {first[:200]!r}")
        fields = (line.partition(":") for line in lines)
        return int(first[9:12]), {k.lower(): v.strip() for k, _, v in fields}

    async def parts(self, headers):
        """The body as it comes; ends early when the connection does, then `is_whole` is False."""
        self.is_whole = False
        try:
            if "content-length" in headers:
                yield await self.reader.readexactly(int(headers["content-length"]))
            elif headers.get("transfer-encoding") == "chunked":
                while size := int((await self.reader.readuntil(b"\r\n"))[:-2], 16):
                    data = await self.reader.readexactly(size + 2)
                    if data[-2:] != b"\r\n":
                        raise Wrong("a chunk longer than it says")
                    yield data[:-2]
                if await self.reader.readexactly(2) != b"\r\n":
                    raise Wrong("something after the last chunk")
            else:
                raise Wrong("a body without a length")
        except asyncio.IncompleteReadError as e:
            yield e.partial if "content-length" in headers else b""
            return
        except ConnectionError:
            return
        self.is_whole = True


class Plain:
    """An engine that is asked directly."""

    def __init__(self, address):
        self.address, self.line = address, None

    async def ask(self, path, body):
        for is_kept in ((True, False) if self.line else (False,)):
            self.line = self.line if is_kept else await Line.to(self.address)
            self.line.writer.write(request_bytes("POST", path, body))
            head = await self.line.head()
            if head is None:
                continue  # it ends idle connections
            status, headers = head
            said = b"".join([part async for part in self.line.parts(headers)])
            assert status == 200 and self.line.is_whole, said
            return Right(json.loads(said))
        raise AssertionError("the plain engine is gone")


class Crowd:
    def __init__(self, pools, clients, rate, seed):
        self.pools, self.clients, self.rate, self.seed = pools, clients, rate, seed
        self.counts = collections.Counter()  # by (pool, how it ended)
        self.faults = []
        self.stopping = False
        self.users = 0
        rng = random.Random(seed)
        self.corpus = " ".join(rng.choices(WORDS, k=60_000))
        for pool in pools:
            pool.menu = [self.draw(rng, pool) for _ in range(MENU)]
        self.thread = threading.Thread(target=lambda: asyncio.run(self.run()))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        self.thread.join()

    def total(self):
        return sum(n for (_, end), n in self.counts.items() if " " not in end)

    async def run(self):
        await asyncio.gather(*(self.client(n) for n in range(self.clients)))

    # --- what is asked

    def draw(self, rng, pool):
        """A path and a body that was not asked before."""
        size = rng.choices((40, 400, 4000, 40_000), (20, 35, 43, 2))[0]
        at = rng.randrange(len(self.corpus) - size)
        words = f"{rng.getrandbits(60):x} {self.corpus[at:at + size]}"
        body = {"model": "tiny", "temperature": 0, "max_tokens": rng.choice((1, 4, 4, 24, 24, 96))}
        if rng.random() < 0.1:
            body["stop"] = [rng.choice("aeo")]  # often within the first token
        if pool.takes_many and rng.random() < 0.05:
            body["n"] = 2
        if rng.random() < 0.5:
            return "/v1/completions", {**body, "prompt": words}
        messages = [{"role": "user", "content": words}]
        if rng.random() < 0.5:
            messages.insert(0, {"role": "system", "content": self.corpus[:rng.choice((100, 2000))]})
        return "/v1/chat/completions", {**body, "messages": messages}

    async def right(self, pool, plain, place, path, body):
        if place is None:
            return await plain[pool.name].ask(path, body)
        if place not in pool.right:
            pool.right[place] = await plain[pool.name].ask(path, body)
        return pool.right[place]

    # --- one client

    async def client(self, number):
        rng = random.Random(self.seed * 1000 + number)
        lines = {}  # by pool
        plain = {pool.name: Plain(pool.plain) for pool in self.pools}
        loop = asyncio.get_running_loop()
        due = loop.time() + rng.random()
        while not self.stopping:
            due = max(due + rng.uniform(0.5, 1.5) * self.clients / self.rate, loop.time())
            await asyncio.sleep(due - loop.time())
            pool = rng.choice(self.pools)
            try:
                await asyncio.wait_for(self.one(rng, pool, lines, plain), LIMIT_S)
            except Exception as e:  # no whole answer in time, or none a client can read
                self.fault(pool, f"{type(e).__name__} {e}")
                lines.pop(pool.name, None)
        for line, _ in lines.values():
            line.close()
        for one in plain.values():
            if one.line:
                one.line.close()

    def fault(self, pool, what):
        self.counts[pool.name, "fault"] += 1
        self.faults.append(f"{pool.name}: {what}")

    def count(self, pool, end, more=None):
        self.counts[pool.name, end] += 1
        if more:
            self.counts[pool.name, f"{end} {more}"] += 1

    async def one(self, rng, pool, lines, plain):
        place = rng.randrange(MENU) if rng.random() < 0.5 else None
        path, body = self.draw(rng, pool) if place is None else pool.menu[place]
        sent, headers = dict(body), []
        if is_stream := rng.random() < 0.5:
            sent["stream"] = True
            if rng.random() < 0.5:
                sent["stream_options"] = {"include_usage": True}
        if rng.random() < 0.8:
            self.users = (self.users + rng.randrange(3)) % USERS
            sent["user"] = f"user {self.users}"
        if rng.random() < 0.02:
            sent.update(pool.foreign)
        name = None
        if rng.random() < 0.3:
            name = f"{rng.getrandbits(60):x}"
            headers.append(("X-Request-Id", name))
        line, until = lines.pop(pool.name, (None, 0))
        now = asyncio.get_running_loop().time()
        if line and until < now:
            line.close()
            line = None
        line = line or await Line.to(pool.vip)
        data = request_bytes("POST", path, sent, headers)
        if rng.random() < 0.12:
            await self.leave(rng, line, data)
            return self.count(pool, "left")
        line.writer.write(data)
        head = await line.head()
        if head is None:
            raise Wrong(f"no answer to {path}")
        status, fields = head
        if name and fields.get("x-request-id") != name:
            raise Wrong(f"another request id: {fields}")
        said = b"".join([part async for part in line.parts(fields)])
        # After a stream that ended with an error the connection ends, too.
        is_kept = line.is_whole and fields.get("connection") != "close"
        if "text/event-stream" in fields.get("content-type", ""):
            is_kept = is_kept and said.endswith(DONE)
        if is_kept and rng.random() < 0.8:
            lines[pool.name] = line, asyncio.get_running_loop().time() + KEPT_S
        else:
            line.close()
        right = await self.right(pool, plain, place, path, body) if status == 200 else None
        self.count(pool, *verdict(status, said, line.is_whole, is_stream, right))

    async def leave(self, rng, line, data):
        """Sends and is gone, at any point."""
        how = rng.choice(LEAVES)
        line.writer.write(data[:rng.randrange(len(data))] if how == "upload" else data)
        if how == "waiting":
            await asyncio.sleep(rng.random() ** 2 * 0.1)
        elif how in ("head", "text"):
            head = await line.head()
            left = rng.randrange(20)
            if head and how == "text":
                async for _ in line.parts(head[1]):
                    if (left := left - 1) < 0:
                        break
        line.close(rng.random() < 0.5)
