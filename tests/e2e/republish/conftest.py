import contextlib
import shutil

import pytest

from gateway import Gateway, complete, free_port, rule
from harness import MINI_TOKENIZER, events_config, start_sim, wait_until

BLOCK = 16


@pytest.fixture
def ends():
    """What is entered here is ended with the test, last first."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def tokenizers(tmp_path):
    """A tokenizer directory that knows the model `tiny`."""
    root = tmp_path / "tokenizers"
    shutil.copytree(MINI_TOKENIZER, root / "tiny")
    return root


@pytest.fixture
def start_gateway(ends, tmp_path, tokenizers):
    """start_gateway(name): a gateway with a state of its own."""
    def start(name):
        folder = tmp_path / name
        folder.mkdir()
        return ends.enter_context(Gateway(str(folder), tokenizers=tokenizers))
    return start


@pytest.fixture
def engine(ends):
    """engine(*flags): a simulated vLLM with KV events."""
    def start(*flags):
        return ends.enter_context(
            start_sim("--model", MINI_TOKENIZER, "--served-model-name", "tiny", "--block-size", BLOCK,
                      "--enable-prompt-tokens-details", "--kv-events-config", events_config(), *flags))
    return start


def free_range(count):
    """The first of `count` ports in a row that nobody listens on now."""
    import socket
    while True:
        first = free_port()
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + count):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first


class Pair:
    """Two gateways in front of the same engines: the first follows the engines, the second the first."""

    def __init__(self, start_gateway, addresses, **arguments):
        self.port = free_range(2 * len(addresses))
        self.arguments = {"kvExactMode": 3, "kvColdSeedEvery": 0, "kvLbMode": "off", **arguments}
        self.start_gateway, self.addresses = start_gateway, addresses
        self.first = start_gateway("first")
        self.first_vip = self.first.vip()
        self.first_body = rule(self.first_vip, addresses, kvRepublish=f"tcp://127.0.0.1:{self.port}",
                               **self.arguments)
        self.first.create(self.first_body)
        self.second = None

    def join(self):
        """The second gateway comes."""
        self.second = self.start_gateway("second")
        self.second_vip = self.second.vip()
        self.second_body = rule(self.second_vip, self.addresses,
                                kvEventsFrom=f"http://{self.first.api}", **self.arguments)
        self.second.create(self.second_body)

    def sides(self):
        yield self.first, self.first_body
        if self.second is not None:
            yield self.second, self.second_body

    def settled(self, engines, limit_s=30):
        """Until both inventories are the engines' caches."""
        def agree():
            for gateway, body in self.sides():
                for e in gateway.find(body)["endpoints"]:
                    engine = engines[f"{e['endpointIP']}:{e['targetPort']}"]
                    if e["kv"]["blocks"] != len(engine.cache()):
                        return False
            return True
        wait_until(agree, limit_s, "inventories as the caches")

    def fill(self, count, topic="Log"):
        for i in range(count):
            assert complete(self.first_vip, f"{topic} {i}. " + TEXT).status == 200


TEXT = "The harbour master wrote down every ship that came in with the tide. " * 8


def endpoint_kv(gateway, body, index=0):
    return gateway.find(body)["endpoints"][index]["kv"]
