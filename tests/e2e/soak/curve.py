"""A process's memory over a run: one sample a second, and what it grew by between two parts of it."""

import collections
import contextlib
import os
import statistics
import threading
import time


class Curve:
    """Samples while the `with` block lasts; `count` says how many requests there were so far."""

    def __init__(self, pid, count):
        self.pid, self.count = pid, count
        self.samples = []  # seconds, RSS in KiB, requests
        self.begun = time.monotonic()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self.stop.wait(1):
            self.samples.append((time.monotonic() - self.begun, rss_kib(self.pid), self.count()))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def fifth(self, n):
        """RSS in KiB and requests at the middle of the nth fifth (0..4), as medians."""
        size = len(self.samples) // 5
        part = self.samples[n * size:(n + 1) * size]
        return statistics.median(s[1] for s in part), statistics.median(s[2] for s in part)

    def growth(self):
        """Bytes from the fourth fifth to the last, and the requests between the two."""
        (early, before), (late, after) = self.fifth(3), self.fifth(4)
        return (late - early) * 1024, after - before

    def text(self):
        step = max(1, len(self.samples) // 20)
        return " ".join(f"{t:.0f}s:{kib / 1024:.1f}@{n}" for t, kib, n in self.samples[::step])


def rss_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def open_files(pid):
    """How many of each kind."""
    kinds = collections.Counter()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            kinds[os.readlink(f"/proc/{pid}/fd/{name}").split(":[")[0]] += 1
    return kinds
