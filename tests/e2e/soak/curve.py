"""A process's memory over a run: one sample a second, and what it grew by between two parts of it."""

import collections
import contextlib
import os
import statistics
import threading
import time

from harness import binary

# Built with the gateway; not with sanitizers.
HEAP_WATCH = os.path.join(os.path.dirname(binary("sluiced")), "..", "tests", "heap_watch.so")


class Curve:
    """Samples while the `with` block lasts; `count` says how many requests there were so far.

    `heap` is a file that heap_watch writes: bytes allocated and not given back. What the process holds
    beside them (RSS) also depends on how they lie.
    """

    Sample = collections.namedtuple("Sample", "seconds rss heap requests")

    def __init__(self, pid, heap, count):
        self.pid, self.heap, self.count = pid, heap, count
        self.samples = []
        self.begun = time.monotonic()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    @staticmethod
    def environment(heap, leak=0):
        """Of a process that is watched; `leak`: so many bytes are lost every second."""
        watch = {"LD_PRELOAD": os.path.abspath(HEAP_WATCH)} if os.path.exists(HEAP_WATCH) else {}
        return {**watch, "HEAP_WATCH_FILE": str(heap), "HEAP_WATCH_LEAK": str(leak)}

    def _run(self):
        while not self.stop.wait(1):
            self.samples.append(self.Sample(time.monotonic() - self.begun, rss(self.pid),
                                            allocated(self.heap), self.count()))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def fifth(self, n, of):
        """The median of the nth fifth (0..4)."""
        size = len(self.samples) // 5
        return statistics.median(getattr(s, of) for s in self.samples[n * size:(n + 1) * size])

    def growth(self, of, since):
        """From the middle of that fifth to the middle of the last."""
        return self.fifth(4, of) - self.fifth(since, of)

    def text(self):
        step = max(1, len(self.samples) // 20)
        return " ".join(f"{s.seconds:.0f}s:{s.heap / 2 ** 20:.1f}/{s.rss / 2 ** 20:.1f}@{s.requests}"
                        for s in self.samples[::step])


def rss(pid):
    """Bytes."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return 1024 * next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def allocated(heap):
    """Bytes; 0 where nobody watches."""
    with contextlib.suppress(FileNotFoundError):
        with open(heap, encoding="ascii") as f:
            return int(f.read())
    return 0


def open_files(pid):
    """How many of each kind."""
    kinds = collections.Counter()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            kinds[os.readlink(f"/proc/{pid}/fd/{name}").split(":[")[0]] += 1
    return kinds
