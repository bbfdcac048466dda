"""The lane of a real prefill/decode pair: scripts/real-vllm --pd sets its environment."""
import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from pair import Pair  # noqa: E402
from real_engines import engine_class  # noqa: E402


def pytest_configure():
    # The engines are ended by a fixture: SIGTERM must unwind like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    if engine_class() is None:
        pytest.skip("run scripts/real-vllm --pd")
    it = Pair(tmp_path_factory.mktemp("pair"), engine_class(), os.environ["SLUICE_REAL_MODEL"])
    try:
        it.start()
        yield it
    finally:
        it.stop()
