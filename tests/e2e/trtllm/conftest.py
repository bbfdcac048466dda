import shutil

import pytest

from gateway import Gateway
from harness import MINI_TOKENIZER, start_trt


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory):
    """A tokenizer directory that knows the model `tiny`."""
    root = tmp_path_factory.mktemp("tokenizers")
    shutil.copytree(MINI_TOKENIZER, root / "tiny")
    return root


@pytest.fixture
def engines():
    """engines(n, *flags): n simulated TensorRT-LLM engines with KV events, ended with the test."""
    started = []

    def start(count, *flags):
        fresh = [start_trt("--model", MINI_TOKENIZER, "--served-model-name", "tiny",
                           "--tokens-per-block", 16, *flags) for _ in range(count)]
        started.extend(fresh)
        return fresh

    yield start
    for engine in started:
        engine.__exit__(None, None, None)


@pytest.fixture
def gateway(tmp_path, tokenizers):
    with Gateway(str(tmp_path), tokenizers=tokenizers) as gw:
        yield gw
