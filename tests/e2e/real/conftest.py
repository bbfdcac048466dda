"""The lane of real engines: scripts/real-vllm sets its environment; without that it is skipped."""
import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from real_engines import engine_class  # noqa: E402
from stand import Stand  # noqa: E402


def pytest_configure():
    # The engines are ended by a fixture: SIGTERM must unwind like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def stand(tmp_path_factory):
    if engine_class() is None:
        pytest.skip("run scripts/real-vllm")
    it = Stand(tmp_path_factory.mktemp("real"), engine_class(), os.environ["SLUICE_REAL_MODEL"])
    try:
        it.start()
        yield it
    finally:
        it.stop()
