import shutil

import pytest

from gateway import Gateway
from harness import MINI_TOKENIZER, events_config, start_sim


@pytest.fixture
def tokenizers(tmp_path):
    """A tokenizer directory that knows the model `tiny`."""
    root = tmp_path / "tokenizers"
    shutil.copytree(MINI_TOKENIZER, root / "tiny")
    return root


@pytest.fixture
def engines():
    """engines(n, *flags): n simulated engines with KV events, ended with the test."""
    started = []

    def start(count, *flags):
        fresh = [start_sim("--model", MINI_TOKENIZER, "--served-model-name", "tiny", "--block-size",
                           16, "--enable-prompt-tokens-details", "--kv-events-config",
                           events_config(), *flags) for _ in range(count)]
        started.extend(fresh)
        return fresh

    yield start
    for engine in started:
        engine.__exit__(None, None, None)


@pytest.fixture
def gateway(tmp_path, tokenizers):
    with Gateway(str(tmp_path), tokenizers=tokenizers) as gw:
        yield gw
