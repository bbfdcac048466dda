import contextlib
import copy
import shutil

import pytest

from gateway import Gateway, rule, split_address
from harness import MINI_TOKENIZER, events_config, start_sim
from tap import Tap, free_on


@pytest.fixture
def tokenizers(tmp_path):
    """A tokenizer directory that knows the model `tiny`."""
    root = tmp_path / "tokenizers"
    shutil.copytree(MINI_TOKENIZER, root / "tiny")
    return root


@pytest.fixture
def ends():
    """What is entered here is ended with the test, last first."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def engines(ends):
    """engines(n, *flags): n simulated engines with KV events."""
    def start(count, *flags):
        return [ends.enter_context(
            start_sim("--model", MINI_TOKENIZER, "--served-model-name", "tiny", "--block-size", 16,
                      "--enable-prompt-tokens-details", "--kv-events-config", events_config(), *flags))
            for _ in range(count)]
    return start


@pytest.fixture
def gateway(tmp_path, tokenizers):
    with Gateway(str(tmp_path), tokenizers=tokenizers) as gw:
        yield gw


class Site:
    """Engines on addresses of their own, so that all can have the same event ports, each port
    counted."""

    def __init__(self, ends, engines, count, *flags):
        hosts = [f"127.0.1.{i + 1}" for i in range(count)]
        self.zmq_port, self.replay_port = free_on(*hosts), free_on(*hosts)
        self.engines = [engines(1, "--host", host, *flags)[0] for host in hosts]
        self.http, self.pub, self.replay = [], [], []
        for host, engine in zip(hosts, self.engines):
            self.http.append(ends.enter_context(Tap(engine.address, host)))
            self.pub.append(ends.enter_context(Tap(engine.pub[0], host, self.zmq_port)))
            self.replay.append(ends.enter_context(Tap(engine.replay[0], host, self.replay_port)))

    def rule(self, vip, which, **more):
        """A KV-exact rule on these engines, by number."""
        return rule(vip, [self.http[i].address for i in which], kvExactMode=3, kvDiscovery="off",
                    kvZmqPort=self.zmq_port, kvReplayPort=self.replay_port, kvColdSeedEvery=0, **more)

    def connects(self, i):
        """Subscriptions and replays of engine i so far."""
        return self.pub[i].connects, self.replay[i].connects


@pytest.fixture
def site(ends, engines):
    return lambda count, *flags: Site(ends, engines, count, *flags)


def edited(body, endpoints=None, **arguments):
    """The rule's body with other arguments (None: without) or endpoints."""
    out = copy.deepcopy(body)
    for name, value in arguments.items():
        out["serviceArguments"][name] = value
        if value is None:
            del out["serviceArguments"][name]
    if endpoints is not None:
        out["endpoints"] = endpoints
    return out


def row(address, weight=1, **more):
    """One of endpoints[]."""
    host, port = split_address(address)
    return {"endpointIP": host, "targetPort": port, "weight": weight, **more}


def endpoint_of(read_back, address):
    """The endpoint of a rule as read back; None when it is not there."""
    host, port = split_address(address)
    return next((e for e in read_back["endpoints"]
                 if e["endpointIP"] == host and e["targetPort"] == port), None)
