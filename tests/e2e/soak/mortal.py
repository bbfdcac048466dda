"""Engines that are killed and come back at the same port, and what they hold for one another.

    engine = Engine("vllm", role=1)
    engine.kill(); engine.start()
    engine.held()                   # hand-offs it keeps blocks for
"""

from gateway import free_port
from harness import MINI_TOKENIZER, exchange, start_sim, start_trt

LEASE_S = {"vllm": 10, "trtllm": 60}  # the second cannot be told to the gateway
# Blocks of a few dozen prompts: they are used again at once, so what is read late or twice is another
# prompt's.
BLOCKS = 6000
START = {
    "vllm": (start_sim, ["--block-size", 16, "--num-gpu-blocks-override", BLOCKS, "--max-model-len",
                         60_000, "--kv-events-config", '{"enable_kv_cache_events":true,'
                         '"endpoint":"tcp://*:0","replay_endpoint":"tcp://127.0.0.1:0"}']),
    "trtllm": (start_trt, ["--tokens-per-block", 16, "--blocks", BLOCKS, "--max-seq-len", 60_000]),
}
PAIRED = {"vllm": ["--kv-connector", "nixl", "--kv-lease-ms", LEASE_S["vllm"] * 1000], "trtllm": []}
ALONE = {"vllm": [], "trtllm": ["--no-cache-transceiver"]}


class Engine:
    def __init__(self, kind, role=0):
        self.kind, self.role = kind, role
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.foreign = self.expired = self.reads = 0  # of processes that are gone
        self.start()

    def start(self):
        run, flags = START[self.kind]
        more = (PAIRED if self.role else ALONE)[self.kind]
        self.sim = run("--port", self.port, "--model", MINI_TOKENIZER, "--served-model-name", "tiny",
                       "--prefill-us-per-token", 0, "--decode-us-per-token", 500, *flags, *more)

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
