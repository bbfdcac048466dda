#!/usr/bin/env python3
"""The demonstration: two simulated engines behind each of two rules, the same chats to both.

One rule routes by KV blocks (kvExactMode 3), the other round robin, each in front of two engines of
its own. A number of conversations with long shared system prompts grow turn by turn; the table says
where they went, how many prompt tokens came from cache, and the time to the first token.

--engine trtllm does the same with TensorRT-LLM engines, whose events are fetched from their serving port.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODEL = "tiny"
TOKENIZER = ROOT / "tests" / "vectors" / "tokenizers" / "mini"
API_PORT = 11111
VIPS = {"kv-exact": 8080, "round robin": 8081}
PREFILL_US, DECODE_US = 150, 4000
CACHE_TOKENS, MAX_TOKENS = 19200, 16384
TOPICS = ["tides", "bridges", "bees", "glaciers", "clocks", "sails"]
WORDS = ("water stone river light engine table paper number garden window market summer winter "
         "letter bridge circle people little great small before after under between").split()


class Children:
    """The processes started here; ended in reverse order whatever happens."""

    def __init__(self):
        self.all = []

    def start(self, argv, **kw):
        child = subprocess.Popen(argv, **kw)
        self.all.append(child)
        return child

    def stop(self):
        for child in reversed(self.all):
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        for child in reversed(self.all):
            try:
                child.wait(15)
            except subprocess.TimeoutExpired:
                child.kill()


def program(name):
    path = pathlib.Path(os.environ["SLUICE_BIN_DIR"]) / name
    if not path.exists():
        sys.exit(f"{path} is not there")
    return str(path)


def flags_of_vllm():
    events = {"enable_kv_cache_events": True, "endpoint": "tcp://[::ffff:127.0.0.1]:0",
              "replay_endpoint": "tcp://127.0.0.1:0"}
    return ["--block-size", "16", "--num-gpu-blocks-override", str(CACHE_TOKENS // 16),
            "--max-model-len", str(MAX_TOKENS), "--enable-prompt-tokens-details",
            "--kv-events-config", json.dumps(events)]


def flags_of_trtllm():
    return ["--tokens-per-block", "32", "--blocks", str(CACHE_TOKENS // 32), "--max-seq-len",
            str(MAX_TOKENS), "--event-buffer-max-size", "16384"]


# What the rules say beside kvExactMode, and what the engines are started with.
ENGINES = {"vllm": ({}, flags_of_vllm), "trtllm": ({"kvEngineType": "trtllm"}, flags_of_trtllm)}


def start_engine(children, kind, more=()):
    engine = children.start(
        [program("sluice-sim"), kind, "--port", "0", "--model", str(TOKENIZER),
         "--served-model-name", MODEL, "--prefill-us-per-token", str(PREFILL_US),
         "--decode-us-per-token", str(DECODE_US), *ENGINES[kind][1](), *more],
        stdout=subprocess.PIPE, text=True)
    line = engine.stdout.readline()
    fields = dict(p.split("=", 1) for p in line.split()[1:])
    return fields["http"]


def api(method, path, body=None):
    link = http.client.HTTPConnection("127.0.0.1", API_PORT, timeout=10)
    link.request(method, "/netlox/v1" + path, json.dumps(body) if body else None,
                 {"Content-Type": "application/json"})
    reply = link.getresponse()
    text = reply.read()
    if reply.status != 200:
        sys.exit(f"{method} {path}: {reply.status} {text.decode()}")
    return json.loads(text)


def start_gateway(children, folder):
    tokenizers = pathlib.Path(folder) / "tokenizers"
    shutil.copytree(TOKENIZER, tokenizers / MODEL)
    children.start([program("sluiced"), "--api-listen", f"127.0.0.1:{API_PORT}", "--state",
                    f"{folder}/sluice.db", "--tokenizers", str(tokenizers), "--log-level", "warn",
                    "--drain-timeout", "5"])
    for _ in range(200):
        try:
            return api("GET", "/status/ready")
        except OSError:
            time.sleep(0.05)
    sys.exit("the gateway did not start")


def create_rule(port, engines, **more):
    api("POST", "/config/loadbalancer", {
        "serviceArguments": {"externalIP": "127.0.0.1", "port": port, "protocol": "tcp", "mode": 4,
                             "sel": 0, "monitor": True, "probeTimeout": 5, **more},
        "endpoints": [{"endpointIP": e.split(":")[0], "targetPort": int(e.split(":")[1]),
                       "weight": 1} for e in engines]})


def wait_for_events(port, engines=None):
    """Until the events of these endpoints of the rule, or of all, are followed."""
    for _ in range(200):
        for rule in api("GET", "/config/loadbalancer/all")["lbAttr"]:
            if rule["serviceArguments"]["port"] == port and all(
                    e["kv"]["signal"] in ("ok", "quiet") for e in rule["endpoints"]
                    if engines is None or f"{e['endpointIP']}:{e['targetPort']}" in engines):
                return
        time.sleep(0.05)
    sys.exit("the engines' KV events did not come")


def send_chat(port, messages):
    """One streamed chat: seconds to the first token, answer, usage."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    begun = time.perf_counter()
    link.request("POST", "/v1/chat/completions", json.dumps(
        {"model": MODEL, "messages": messages, "stream": True, "max_tokens": 24,
         "stream_options": {"include_usage": True}}), {"Content-Type": "application/json"})
    reply = link.getresponse()
    if reply.status != 200:
        raise RuntimeError(f"{reply.status}: {reply.read().decode()}")
    first, text, usage = None, "", {}
    for line in reply:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        event = json.loads(line[6:])
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            if choice["delta"].get("content"):
                first = first or time.perf_counter() - begun
                text += choice["delta"]["content"]
    return first or 0.0, text, usage


def conversation(number):
    """The turns of one client; the system prompt is shared by every sixth conversation."""
    topic = TOPICS[number % len(TOPICS)]
    seeded = random.Random(topic)
    system = f"You are a guide to {topic}. " + " ".join(seeded.choices(WORDS, k=600))
    own = random.Random(number)
    return system, [" ".join(own.choices(WORDS, k=60)) for _ in range(4)]


def run_client(port, number):
    system, turns = conversation(number)
    messages = [{"role": "system", "content": system}]
    results = []
    for turn in turns:
        messages.append({"role": "user", "content": turn})
        first, text, usage = send_chat(port, messages)
        details = usage.get("prompt_tokens_details") or {}
        results.append((first, usage.get("prompt_tokens", 0), details.get("cached_tokens") or 0))
        messages.append({"role": "assistant", "content": text})
    return results


def run_load(port, clients):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return [r for one in pool.map(lambda n: run_client(port, n), range(clients)) for r in one]


def engines_of(port):
    """Requests per endpoint, from the gateway's receipts."""
    number = next(r["number"] for r in api("GET", "/config/loadbalancer/all")["lbAttr"]
                  if r["serviceArguments"]["port"] == port)
    counts = {}
    for flow in api("GET", f"/status/flows?rule={number}&limit=2000")["flows"]:
        if flow["legs"]:
            name = flow["legs"][-1]["endpoint"]
            counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))


def show(results):
    head = ("", *results)
    rows = [("requests", *(str(len(r)) for r in results.values()))]
    rows.append(("requests per engine",
                 *(" / ".join(map(str, engines_of(VIPS[name]).values())) for name in results)))
    rows.append(("prompt tokens", *(f"{sum(x[1] for x in r):,}" for r in results.values())))
    rows.append(("of these from cache", *(
        f"{sum(x[2] for x in r):,} ({100 * sum(x[2] for x in r) / max(1, sum(x[1] for x in r)):.0f} %)"
        for r in results.values())))
    for title, pick in (("first token, median", lambda v: statistics.median(v)),
                        ("first token, 90th percentile", lambda v: sorted(v)[int(len(v) * 0.9)])):
        rows.append((title, *(f"{1000 * pick([x[0] for x in r]):.0f} ms" for r in results.values())))
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    print()
    for row in [head, *rows]:
        print("  " + "  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                                for i, (cell, w) in enumerate(zip(row, widths))))
    print(f"\n  (simulated engines: {PREFILL_US} us a prompt token that is not cached, {DECODE_US} us "
          "a generated token)")


NEXT = f"""
It stays up until Ctrl-C. Try:

  curl -s http://127.0.0.1:{VIPS['kv-exact']}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"model":"{MODEL}","messages":[{{"role":"user","content":"hello"}}],"max_tokens":8}}'
  curl -s 'http://127.0.0.1:{API_PORT}/netlox/v1/status/flows?limit=1'          # why it went there
  curl -s -X POST http://127.0.0.1:{API_PORT}/netlox/v1/config/ai/route/explain \\
    -d '{{"listener":"127.0.0.1:{VIPS['kv-exact']}","body":{{"model":"{MODEL}","prompt":"hello"}}}}'
  curl -s http://127.0.0.1:{API_PORT}/netlox/v1/config/loadbalancer/all          # rules, endpoints
  curl -s http://127.0.0.1:{API_PORT}/netlox/v1/metrics                          # Prometheus
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--once", action="store_true", help="end after the table")
    parser.add_argument("--engine", choices=ENGINES, default="vllm", help="what is simulated")
    parser.add_argument("--clients", type=int, default=24, help="conversations of four turns each")
    options = parser.parse_args()
    children = Children()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="sluice-demo-") as folder:
        try:
            start_gateway(children, folder)
            exact = [start_engine(children, options.engine) for _ in range(2)]
            plain = [start_engine(children, options.engine) for _ in range(2)]
            fields = ENGINES[options.engine][0]
            create_rule(VIPS["kv-exact"], exact, kvExactMode=3, **fields)
            create_rule(VIPS["round robin"], plain, **fields)
            wait_for_events(VIPS["kv-exact"])
            print(f"gateway up: management http://127.0.0.1:{API_PORT}/netlox/v1, two rules, "
                  f"two simulated {options.engine} engines each")
            results = {}
            for name, port in VIPS.items():
                print(f"sending {options.clients} conversations to the {name} rule "
                      f"(127.0.0.1:{port}) ...", flush=True)
                results[name] = run_load(port, options.clients)
            show(results)
            if not options.once:
                print(NEXT, flush=True)
                signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            children.stop()


if __name__ == "__main__":
    main()
