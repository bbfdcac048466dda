#!/usr/bin/env python3
"""A request on two engines, in one run with the two legs called directly and with plain requests.

    bench.py BUILD_DIR [--rounds 5] [--latency 400] [--requests 4000] [--counts [N]] [--out F.json]

Two prefill, two decode and two plain engines (bench-pd-engine) that compute nothing; one gateway with
one worker and a rule each for pairs, for pairs that route by prefix, and for the plain engines.

Latency: one connection, no think time; each round of the client takes every way once, in turn: the
gateway splits, the client calls both legs itself, two plain requests through the gateway, the same two
directly. Added = through the gateway less directly. With a stream it is the time to its first event.
CPU: run time of all threads of the gateway over the requests of one batch; batches of all ways
alternate. --counts adds instructions (callgrind) and system calls (strace) a request, which do not
depend on the neighbours. Medians over the rounds. Loopback only.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from tools import Callgrind, Children, cpu_ns, free_port, rule, syscalls, wait_port

SIZES = {"4 KiB": 4096, "64 KiB": 65536}
GAP_US = 5000
EVENTS = 64
CELLS = {  # bytes, stream, events, connections, share of --requests
    "4 KiB, 16 connections": (4096, 0, EVENTS, 16, 1.0),
    "4 KiB": (4096, 0, EVENTS, 64, 1.0),
    "64 KiB": (65536, 0, EVENTS, 64, 0.5),
    "4 KiB, 64 paced events": (4096, 1, EVENTS, 64, 0.13),
}
WAYS = ("pd", "pd_prefix", "plain")


class Bench(Children):
    def __init__(self, build, folder):
        super().__init__()
        self.build, self.folder = pathlib.Path(build), pathlib.Path(folder)
        self.engines = {role: [free_port() for _ in range(2)] for role in ("prefill", "decode", "plain")}
        for role, ports in self.engines.items():
            for port in ports:
                self.start([self.build / "bin" / "bench-pd-engine", role, port, GAP_US])
        for ports in self.engines.values():
            for port in ports:
                wait_port(port)
        self.vips = {}

    def new_rules(self):
        """Of a gateway of its own: from now on that is where load goes."""
        self.vips = {way: free_port() for way in WAYS}
        pairs = ([(p, {"ep_role": 1}) for p in self.engines["prefill"]]
                 + [(p, {"ep_role": 2}) for p in self.engines["decode"]])
        return [rule(self.vips["pd"], pairs, pd_disagg_mode=True),
                rule(self.vips["pd_prefix"], pairs, pd_disagg_mode=True, pd_cache_aware_mode=True),
                rule(self.vips["plain"], self.engines["plain"])]

    def load(self, *arguments):
        out = subprocess.run([self.build / "bin" / "bench-pd-load", *map(str, arguments)],
                             capture_output=True, text=True, timeout=600)
        if out.returncode != 0:
            raise SystemExit(f"requests failed: {arguments}\n{out.stderr}")
        return out.stdout

    def latency(self, size, stream, count):
        """{way: (median, p99)} in microseconds."""
        def at(ports):
            return ",".join(f"127.0.0.1:{p}" for p in ports)
        text = self.load("latency", at([self.vips["pd"]]), at([self.vips["plain"]]),
                         at(self.engines["prefill"]), at(self.engines["decode"]),
                         at(self.engines["plain"]), size, stream, count)
        return {name: (float(p50), float(p99)) for name, p50, p99 in map(str.split, text.splitlines())}

    def work(self, way, cell, requests):
        """How many requests were sent."""
        size, stream, events, connections, share = CELLS[cell]
        count = max(connections * 4, int(requests * share))
        self.load("work", f"127.0.0.1:{self.vips[way]}", connections, count, size, stream, events)
        return count


def measure_latency(bench, rounds, count):
    out = {}
    for name, size in SIZES.items():
        for stream in (0, 1):
            title = f"{name}, {'first event' if stream else 'whole answer'}"
            out[title] = [bench.latency(size, stream, count) for _ in range(rounds)]
    return out


def measure_cpu(bench, pid, rounds, requests):
    out = {way: {cell: [] for cell in CELLS} for way in WAYS}
    for r in range(rounds + 1):  # the first one warms
        for cell in CELLS:
            for way in WAYS if r % 2 else reversed(WAYS):
                before = cpu_ns(pid)
                done = bench.work(way, cell, requests if r else requests / 4)
                if r:
                    out[way][cell].append((cpu_ns(pid) - before) / 1000 / done)
    return out


def measure_counts(bench, pid, requests, profiles):
    out = {"syscalls": {}, "instructions": {}}
    for way in WAYS:
        out["syscalls"][way] = {}
        for cell in CELLS:
            total, done = syscalls(pid, bench.folder, lambda: bench.work(way, cell, requests))
            out["syscalls"][way][cell] = total / done
    traced = Callgrind(bench, bench.build, bench.folder, bench.new_rules())
    for way in WAYS:
        out["instructions"][way] = {}
        for cell in CELLS:
            bench.work(way, cell, requests / 4)  # warm
            total, done = traced.instructions(lambda: bench.work(way, cell, requests))
            out["instructions"][way][cell] = total / done
            if profiles:
                traced.dump(f"{way} {cell}")
    if profiles:
        for file in bench.folder.glob("cg.*"):
            shutil.copy(file, profiles)
    return out


def median(rounds, of):
    return statistics.median(of(r) for r in rounds)


def print_latency(rows):
    print("\n| added us, median / p99 | split | two plain requests | legs directly, in all |\n"
          "|---|---|---|---|")
    for title, rounds in rows.items():
        cells = []
        for way in ("pd", "plain"):
            added = [median(rounds, lambda r, i=i: r[f"{way}_gateway"][i] - r[f"{way}_direct"][i])
                     for i in (0, 1)]
            cells.append(f"{added[0]:.0f} / {added[1]:.0f}")
        direct = [median(rounds, lambda r, i=i: r["pd_direct"][i]) for i in (0, 1)]
        print(f"| {title} | {cells[0]} | {cells[1]} | {direct[0]:.0f} / {direct[1]:.0f} |")


def print_table(what, rows, pattern):
    print(f"\n| {what} | split | split by prefix | plain | split / two plain |\n|---|---|---|---|---|")
    for cell in CELLS:
        pd, prefix, plain = (rows[way][cell] for way in WAYS)
        print(f"| {cell} | {pd:{pattern}} | {prefix:{pattern}} | {plain:{pattern}} "
              f"| {pd / plain / 2:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--latency", type=int, default=400, help="rounds of the client, 0 for none")
    parser.add_argument("--requests", type=int, default=4000, help="of a batch, 0 for none")
    parser.add_argument("--counts", type=int, nargs="?", const=1000, default=0, help="requests of a batch")
    parser.add_argument("--profiles", help="folder for callgrind's profiles")
    parser.add_argument("--out")
    options = parser.parse_args()
    result = {}
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as folder:
        bench = Bench(options.build, folder)
        try:
            pid = bench.sluice(options.build, folder, bench.new_rules())
            for port in bench.vips.values():
                wait_port(port)
            if options.latency:
                result["latency_us"] = measure_latency(bench, options.rounds, options.latency)
                print_latency(result["latency_us"])
            if options.requests:
                cpu = measure_cpu(bench, pid, options.rounds, options.requests)
                result["cpu_us"] = cpu
                print_table("CPU us a request",
                            {w: {c: statistics.median(v) for c, v in cells.items()}
                             for w, cells in cpu.items()}, ".1f")
            if options.counts:
                result.update(measure_counts(bench, pid, options.counts, options.profiles))
                print_table("instructions a request", result["instructions"], ",.0f")
                print_table("system calls a request", result["syscalls"], ".2f")
        finally:
            bench.stop()
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
