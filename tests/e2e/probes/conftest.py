import contextlib

import pytest

from gateway import Gateway
from harness import MINI_TOKENIZER, start_sim


@pytest.fixture
def ends():
    """What is entered here is ended with the test, last first."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def engines(ends):
    """engines(n): n simulated engines."""
    def start(count, *flags):
        return [ends.enter_context(start_sim("--model", MINI_TOKENIZER, "--served-model-name", "tiny", *flags))
                for _ in range(count)]
    return start


@pytest.fixture
def gateway(tmp_path):
    with Gateway(str(tmp_path)) as gw:
        yield gw
