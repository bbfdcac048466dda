"""Simulated engines whose legs meet by a transfer id, and a rule over them."""

from conftest import pd_rule
from gateway import free_port
from harness import MINI_TOKENIZER, start_sim

COMMON = ("--model", MINI_TOKENIZER, "--served-model-name", "tiny", "--block-size", 16,
          "--enable-prompt-tokens-details")


class Pool:
    """A rule over prefill engines with one bootstrap port on hosts of their own, and decode engines."""

    def __init__(self, gateway, prefills=1, decodes=1, flags=(), bootstrap=None, **fields):
        self.port = free_port()
        flags = (*COMMON, "--kv-connector", "mooncake", *flags)
        self.prefills = [start_sim(*flags, "--host", f"127.0.0.{i + 1}", "--bootstrap-port", self.port)
                         for i in range(prefills)]
        self.decodes = [start_sim(*flags) for _ in range(decodes)]
        self.vip = gateway.vip()
        gateway.create(pd_rule(
            self.vip, self.prefills, self.decodes, pd_connector="mooncake",
            plugin_config={"vllm": {"mooncake_bootstrap_port": bootstrap or self.port}}, **fields))

    def close(self):
        for engine in (*self.prefills, *self.decodes):
            engine.__exit__(None, None, None)
