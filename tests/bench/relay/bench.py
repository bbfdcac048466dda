#!/usr/bin/env python3
"""Relaying beside HAProxy and nginx, in one run: CPU a request and a chunk, instructions, syscalls.

    bench.py BUILD_DIR [--rounds 3] [--seconds 3] [--counts] [--only sluice,haproxy] [--out F.json]

Every proxy has one thread in front of four engines (bench-upstream), keep-alive on both sides, and is
up all the time; each round visits all of them, odd rounds in reverse order. CPU is the scheduler's run
time of all threads of the proxy, divided by what wrk completed. --counts adds instructions a request
(callgrind, sluiced only) and system calls a request (strace), which do not depend on the neighbours.
Needs wrk, and haproxy, nginx, valgrind, strace where they are there. Loopback only.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from tools import Callgrind, Children, cpu_ns, free_port, rule, syscalls, wait_port

CELLS = {  # body bytes, stream, connections
    "post_4k": (4096, False, 64),
    "post_64k": (65536, False, 64),
    "sse_paced": (512, True, 64),
}
EVENTS = 64


def body_of(size, stream):
    """A chat body of about `size` bytes."""
    body = {"model": "bench", "stream": stream, "max_tokens": 64,
            "messages": [{"role": "user", "content": ""}]}
    fill = max(0, size - len(json.dumps(body)))
    body["messages"][0]["content"] = ("lorem ipsum dolor sit amet " * (fill // 27 + 1))[:fill]
    return json.dumps(body, separators=(",", ":"))


class Bench(Children):
    def __init__(self, build, folder):
        super().__init__()
        self.build, self.folder = pathlib.Path(build), pathlib.Path(folder)
        self.upstreams = [free_port() for _ in range(4)]
        for port in self.upstreams:
            self.start([str(self.build / "bin" / "bench-upstream"), str(port), str(EVENTS), "5000"])
        for port in self.upstreams:
            wait_port(port)
        for cell, (size, stream, _) in CELLS.items():
            (self.folder / f"{cell}.lua").write_text(
                'wrk.method = "POST"\nwrk.path = "/v1/chat/completions"\n'
                'wrk.headers["Content-Type"] = "application/json"\n'
                f"wrk.body = [==[{body_of(size, stream)}]==]\n")

    # --- the proxies: each returns (pid, port)
    def proxy_sluice(self):
        port = free_port()
        return self.sluice(self.build, self.folder, [rule(port, self.upstreams)]), port

    def proxy_haproxy(self):
        port = free_port()
        servers = "\n".join(f"  server s{p} 127.0.0.1:{p}" for p in self.upstreams)
        conf = self.folder / "haproxy.cfg"
        conf.write_text(f"""
global
  nbthread 1
  maxconn 4000
defaults
  mode http
  option http-no-delay
  option forwardfor
  http-reuse always
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend f
  bind 127.0.0.1:{port}
  default_backend b
backend b
  balance roundrobin
{servers}
""")
        return self.start(["haproxy", "-db", "-f", str(conf)]).pid, port

    def proxy_nginx(self):
        port = free_port()
        servers = "\n".join(f"    server 127.0.0.1:{p};" for p in self.upstreams)
        conf = self.folder / "nginx.conf"
        conf.write_text(f"""
daemon off;
master_process off;
worker_processes 1;
pid {self.folder}/nginx.pid;
error_log /dev/null;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_buffer_size 128k;
  client_max_body_size 64m;
  client_body_temp_path {self.folder}/body;
  proxy_temp_path {self.folder}/proxy;
  fastcgi_temp_path {self.folder}/f; uwsgi_temp_path {self.folder}/u; scgi_temp_path {self.folder}/s;
  upstream b {{
{servers}
    keepalive 256;
  }}
  server {{
    listen 127.0.0.1:{port};
    keepalive_requests 10000000;
    location / {{
      proxy_pass http://b;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_buffering off;
    }}
  }}
}}
""")
        return self.start(["nginx", "-c", str(conf), "-p", str(self.folder)]).pid, port

    # --- measuring
    def load(self, cell, port, seconds):
        """Requests completed by wrk, and its median latency in ms."""
        out = subprocess.run(
            ["wrk", "-t1", f"-c{CELLS[cell][2]}", f"-d{seconds}s", "--latency", "-s",
             str(self.folder / f"{cell}.lua"), f"http://127.0.0.1:{port}/"],
            capture_output=True, text=True, check=True).stdout
        done = int(re.search(r"(\d+) requests in", out)[1])
        bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
        if bad or "Socket errors" in out:
            raise SystemExit(f"{cell}: errors\n{out}")
        value, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", out).groups()
        return done, float(value) * {"us": 0.001, "ms": 1, "s": 1000}[unit]


def measure(bench, proxies, rounds, seconds):
    rows = {name: {cell: [] for cell in CELLS} for name in proxies}
    for name, (_, port) in proxies.items():
        for cell in CELLS:
            bench.load(cell, port, 1)  # warm
    for r in range(rounds):
        order = list(proxies) if r % 2 == 0 else list(reversed(proxies))
        for cell in CELLS:
            for name in order:
                pid, port = proxies[name]
                before = cpu_ns(pid)
                done, latency = bench.load(cell, port, seconds)
                used = (cpu_ns(pid) - before) / 1000 / done
                if CELLS[cell][1]:
                    used /= EVENTS
                rows[name][cell].append((used, latency))
    return rows


def instructions(bench):
    """Instructions a request, by callgrind between two dumps."""
    port = free_port()
    traced = Callgrind(bench, bench.build, bench.folder, [rule(port, bench.upstreams)])
    out = {}
    for cell, (_, stream, _) in CELLS.items():
        bench.load(cell, port, 2)
        total, (done, _) = traced.instructions(lambda: bench.load(cell, port, 5))
        out[cell] = total / done / (EVENTS if stream else 1)
    return out


def syscalls_of(bench, pid, port):
    """System calls a request at saturation, by strace."""
    out = {}
    for cell, (_, stream, _) in CELLS.items():
        total, (done, _) = syscalls(pid, bench.folder, lambda: bench.load(cell, port, 4))
        out[cell] = total / done / (EVENTS if stream else 1)
    return out


def table(rows):
    names = list(rows)
    print("\n| CPU us | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for cell in CELLS:
        title = cell + (" (a chunk)" if CELLS[cell][1] else " (a request)")
        medians = {n: statistics.median(u for u, _ in rows[n][cell]) for n in names}
        line = [f"{medians[n]:.1f}" for n in names]
        if "haproxy" in names:
            line = [f"{text} ({medians[n] / medians['haproxy']:.2f})" for text, n in zip(line, names)]
        print(f"| {title} | " + " | ".join(line) + " |")
    for cell in CELLS:
        latencies = [f"{statistics.median(l for _, l in rows[n][cell]):.2f} ms" for n in names]
        print(f"| {cell} latency p50 | " + " | ".join(latencies) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("--only", default="sluice,haproxy,nginx")
    parser.add_argument("--out")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed")
    result = {}
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        os.chmod(folder, 0o755)
        bench = Bench(options.build, folder)
        try:
            wanted = [n for n in options.only.split(",") if n == "sluice" or shutil.which(n)]
            proxies = {name: getattr(bench, f"proxy_{name}")() for name in wanted}
            for _, port in proxies.values():
                wait_port(port)
            rows = measure(bench, proxies, options.rounds, options.seconds)
            table(rows)
            result["cpu_us"] = rows
            if options.counts:
                result["syscalls"] = {n: syscalls_of(bench, *proxies[n]) for n in proxies}
                result["instructions"] = {"sluice": instructions(bench)}
                print("\n| a request, or a chunk | " + " | ".join(CELLS) + " |\n|---|" + "---|" * len(CELLS))
                for name, counts in result["syscalls"].items():
                    print(f"| syscalls, {name} | " + " | ".join(f"{counts[c]:.2f}" for c in CELLS) + " |")
                counts = result["instructions"]["sluice"]
                print("| instructions, sluice | " + " | ".join(f"{counts[c]:,.0f}" for c in CELLS) + " |")
        finally:
            bench.stop()
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
