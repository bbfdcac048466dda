"""Engines for the tests with a real engine: a real vLLM, or its simulation to check the tests themselves.

    engine = RealEngine(folder, "a", model); engine.start(); engine.wait_ready(); ...; engine.stop()
    prefill = RealEngine(folder, "p", model, lease_s=10)    # one of a pair that hands KV over

The ports are free ones on 127.0.0.1 and stay the same over restarts. stop() and kill() end the whole
process group: the engine's workers outlive a SIGKILL of their parent otherwise.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from gateway import free_port
from harness import binary, exchange, wait_until

MODEL = "tiny"
BLOCK = 32
# 128 blocks hold one request of the greatest length. A prompt takes some 25: evictions come early.
BLOCKS = 300
MAX_LEN = 4096

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
    "VLLM_HOST_IP": "127.0.0.1", "PYTHONHASHSEED": "0", "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1", "VLLM_SERVER_DEV_MODE": "1",
}


class Engine:
    """One engine process behind fixed loopback ports."""

    ready_s = 60

    def __init__(self, folder, name, model, lease_s=0):
        self.name = name
        self.model = pathlib.Path(model)
        self.folder = pathlib.Path(folder) / name
        self.folder.mkdir(parents=True)
        self.lease_s = lease_s
        self.port, self.pub_port, self.replay_port, self.side_port = (free_port() for _ in range(4))
        self.address = f"127.0.0.1:{self.port}"
        self.pub = f"tcp://127.0.0.1:{self.pub_port}"
        self.replay = f"tcp://127.0.0.1:{self.replay_port}"
        self.log_path = self.folder / "engine.log"
        self.child = None

    def flags(self):
        events = {"enable_kv_cache_events": True, "topic": "kv", "replay_endpoint": self.replay,
                  "endpoint": f"tcp://[::ffff:127.0.0.1]:{self.pub_port}"}
        return ["--model", str(self.model), "--served-model-name", MODEL, "--host", "127.0.0.1",
                "--port", str(self.port), "--block-size", str(BLOCK),
                "--max-model-len", str(MAX_LEN), "--max-num-seqs", "16",
                "--num-gpu-blocks-override", str(BLOCKS), "--enable-prompt-tokens-details",
                "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
                "--kv-events-config", json.dumps(events)]

    def argv(self):
        raise NotImplementedError

    def start(self):
        # An engine without its test is of no use: it ends with it, whatever ended the test. It is a
        # group and no session: one that waits yields its core, to others of its session only.
        guard = [shutil.which("setpriv"), "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        with open(self.log_path, "ab") as log:
            self.child = subprocess.Popen(guard + self.argv(), stdin=subprocess.DEVNULL, stdout=log,
                                          stderr=log, cwd=self.folder, process_group=0,
                                          env={**os.environ, **ENVIRONMENT, **self.environment()})

    def environment(self):
        return {}

    def wait_ready(self):
        """Until /health says 200; the seconds it took."""
        begun = time.monotonic()
        wait_until(self.is_ready, self.ready_s, f"engine {self.name} ready")
        return time.monotonic() - begun

    def is_ready(self):
        if self.child.poll() is not None:
            raise AssertionError(f"engine {self.name} ended with {self.child.returncode}\n"
                                 + self.log()[-4000:])
        try:
            reply = exchange(self.address, "GET", "/health", limit_s=5)
        except OSError:
            time.sleep(0.2)  # a start takes half a minute: no need to ask 200 times a second
            return False
        return reply is not None and reply.status == 200

    def metric(self, name):
        """The sum of the samples of vllm:`name`."""
        text = exchange(self.address, "GET", "/metrics", limit_s=30).body.decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                   if line.startswith(f"vllm:{name}{{"))

    def log(self):
        return self.log_path.read_text(errors="replace")

    def is_group_gone(self):
        self.child.poll()
        try:
            os.killpg(self.child.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def signal(self, number):
        try:
            os.killpg(self.child.pid, number)
        except ProcessLookupError:
            pass

    def kill(self):
        """As a crash of the machine: parent and workers at once."""
        self.signal(signal.SIGKILL)
        self.child.wait(20)
        wait_until(self.is_group_gone, 20, f"processes of engine {self.name} gone")
        self.child = None

    def stop(self):
        if self.child is None:
            return
        try:
            if self.child.poll() is None:
                self.child.terminate()
                self.child.wait(30)
            wait_until(self.is_group_gone, 10, "workers gone")
        except (subprocess.TimeoutExpired, AssertionError):
            pass
        self.kill()


class RealEngine(Engine):
    ready_s = 600

    def argv(self):
        transfer = {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu",
                    "kv_connector_extra_config": {"kv_lease_duration": self.lease_s}}
        pair = ["--kv-transfer-config", json.dumps(transfer)] if self.lease_s else []
        return ["nice", "-n", "5", os.environ["SLUICE_REAL_PYTHON"], "-m",
                "vllm.entrypoints.openai.api_server", "--enforce-eager", "--enable-prefix-caching",
                *self.flags(), *pair]

    def environment(self):
        return {"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "UCX_TLS": "tcp,sm,self",
                "UCX_NET_DEVICES": "lo", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(self.side_port)}


class SimulatedEngine(Engine):
    def argv(self):
        pair = ["--kv-connector", "nixl", "--kv-lease-ms", str(self.lease_s * 1000),
                "--side-channel-port", str(self.side_port)] if self.lease_s else []
        return [binary("sluice-sim"), "vllm", "--dev-mode", *self.flags(), *pair]


def engine_class():
    """By SLUICE_REAL_ENGINE, `vllm` or `sim`; None when the lane was not asked for."""
    return {"vllm": RealEngine, "sim": SimulatedEngine}.get(os.environ.get("SLUICE_REAL_ENGINE"))
