import pytest

from harness import MINI_TOKENIZER, events_config, start_sim


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
