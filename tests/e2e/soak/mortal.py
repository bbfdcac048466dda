"""Engines that are killed and come back at the same port, and what they hold for one another.

    engine = Engine("nixl", role=1)
    engine.kill(); engine.start()
    engine.held()                   # hand-offs it keeps blocks for
"""

from gateway import free_port
from harness import MINI_TOKENIZER, exchange, start_sim, start_trt

# Until an engine gives up what nobody reads. The gateway is told the first, and knows the others' usual
# ones (60 s, 480 s).
LEASE_S = {"nixl": 10, "trtllm": 60, "mooncake": 15}
# Blocks of a few dozen prompts: they are used again at once, so what is read late or twice is another
# prompt's.
BLOCKS = 6000
# What is asked for again after an edit that followed no events is read at once: little, or the heap keeps
# room for it.
VLLM = ["--block-size", 16, "--num-gpu-blocks-override", BLOCKS, "--max-model-len", 60_000,
        "--kv-events-config", '{"enable_kv_cache_events":true,"endpoint":"tcp://*:0",'
        '"replay_endpoint":"tcp://127.0.0.1:0","buffer_steps":500}']
TRTLLM = ["--event-buffer-max-size", 1024, "--tokens-per-block", 16, "--blocks", BLOCKS,
          "--max-seq-len", 60_000]


class Engine:
    """Of a pair (`kind` "nixl", "mooncake" or "trtllm"), or one that answers alone."""

    def __init__(self, kind, role, host="127.0.0.1", bootstrap_port=0):
        self.kind, self.role = kind, role
        self.port = free_port(host)
        self.address = f"{host}:{self.port}"
        self.run, self.flags = (start_trt, TRTLLM) if kind == "trtllm" else (start_sim, VLLM)
        if kind == "trtllm":
            self.flags = self.flags + ([] if role else ["--no-cache-transceiver"])
        elif role:
            self.flags = self.flags + ["--kv-connector", kind, "--kv-lease-ms", LEASE_S[kind] * 1000,
                                       "--bootstrap-port", bootstrap_port]
        self.flags = self.flags + ["--host", host]
        self.foreign = self.expired = self.reads = 0  # of processes that are gone
        self.start()

    def start(self):
        self.sim = self.run(
            "--port", self.port, "--model", MINI_TOKENIZER, "--served-model-name", "tiny",
            "--prefill-us-per-token", 0, "--decode-us-per-token", 500, *self.flags)

    def leases(self):
        return exchange(self.address, "GET", "/sim/leases", limit_s=30).json()

    def held(self):
        return [lease for rank in self.leases()["ranks"] for lease in rank["held"]]

    def remember(self):
        """What this process knows of its hand-offs, before it goes."""
        said = self.leases()
        self.foreign += said.get("pulls", {}).get("foreign", 0)
        self.expired += sum(rank["expired"] for rank in said["ranks"])
        self.reads += sum(rank["read"] for rank in said["ranks"])

    def arm(self, fault, count):
        exchange(self.address, "POST", "/sim/fault", {"fault": fault, "count": count})

    def disarm(self):
        exchange(self.address, "DELETE", "/sim/fault")

    def kill(self):
        self.sim.kill()
        self.sim._close()
