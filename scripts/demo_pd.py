#!/usr/bin/env python3
"""The demonstration of prefill/decode: two prefill and two decode engines behind one rule.

The conversations of demo_load.py go to the pairs; the table says on which engines each leg ran, why
that prefill engine was chosen, what was handed over and what prefill had cached.

--engine trtllm does the same with context and generation legs of TensorRT-LLM.
"""

import argparse
import collections
import signal
import statistics
import sys
import tempfile

import demo_load as demo

PORT = 8082
PAIR_FLAGS = {"vllm": ["--kv-connector", "nixl"], "trtllm": []}


def create_rule(prefills, decodes, **fields):
    rows = [(e, 1) for e in prefills] + [(e, 2) for e in decodes]
    demo.api("POST", "/config/loadbalancer", {
        "serviceArguments": {"externalIP": "127.0.0.1", "port": PORT, "protocol": "tcp", "mode": 4,
                             "sel": 0, "monitor": True, "probeTimeout": 5, "pd_disagg_mode": True,
                             "pd_cache_aware_mode": True, "kvExactMode": 1, **fields},
        "endpoints": [{"endpointIP": e.split(":")[0], "targetPort": int(e.split(":")[1]),
                       "weight": 1, "ep_role": role} for e, role in rows]})


def counted(flows, kind, what):
    return collections.Counter(leg[what] for flow in flows for leg in flow["legs"]
                               if leg["kind"] == kind)


def line(title, counts):
    print("  " + title.ljust(30) + "   ".join(f"{k} {n}" for k, n in sorted(counts.items())))


def show(results, flows):
    prompt, cached = (sum(r[i] for r in results) for i in (1, 2))
    first = [r[0] * 1000 for r in results]
    print(f"\n  {len(results)} requests of {prompt:,} prompt tokens, {cached:,} "
          f"({100 * cached / max(1, prompt):.0f} %) in prefill's cache")
    for kind in ("prefill", "decode", "whole"):
        if counts := counted(flows, kind, "endpoint"):
            line(f"{kind} legs", counts)
    line("prefill chosen by", counted(flows, "prefill", "tier"))
    line("prefill legs ended", counted(flows, "prefill", "verdict"))
    print(f"  {'first token'.ljust(30)}median {statistics.median(first):.0f} ms, 90th percentile "
          f"{sorted(first)[int(len(first) * 0.9)]:.0f} ms")
    print(f"\n  (simulated engines: {demo.PREFILL_US} us a prompt token that is not cached, "
          f"{demo.DECODE_US} us a generated token)")


NEXT = f"""
It stays up until Ctrl-C. Try:

  curl -s http://127.0.0.1:{PORT}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"model":"{demo.MODEL}","messages":[{{"role":"user","content":"hello"}}],"max_tokens":8}}'
  curl -s 'http://127.0.0.1:{demo.API_PORT}/netlox/v1/status/flows?limit=1'          # both legs
  curl -s http://127.0.0.1:{demo.API_PORT}/netlox/v1/metrics | grep -E 'loxilb_(ai_)?pd_'
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--once", action="store_true", help="end after the table")
    parser.add_argument("--engine", choices=demo.ENGINES, default="vllm", help="what is simulated")
    parser.add_argument("--clients", type=int, default=24, help="conversations of four turns each")
    options = parser.parse_args()
    children = demo.Children()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="sluice-demo-") as folder:
        try:
            demo.start_gateway(children, folder)
            engines = [demo.start_engine(children, options.engine, PAIR_FLAGS[options.engine])
                       for _ in range(4)]
            create_rule(engines[:2], engines[2:], **demo.ENGINES[options.engine][0])
            demo.wait_for_events(PORT, engines[:2])
            print(f"gateway up: management http://127.0.0.1:{demo.API_PORT}/netlox/v1, two prefill and "
                  f"two decode engines ({options.engine}, simulated)")
            print(f"sending {options.clients} conversations to 127.0.0.1:{PORT} ...", flush=True)
            results = demo.run_load(PORT, options.clients)
            show(results, demo.api("GET", "/status/flows?limit=2000")["flows"])
            if not options.once:
                print(NEXT, flush=True)
                signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            children.stop()


if __name__ == "__main__":
    main()
