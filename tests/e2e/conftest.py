"""For every end-to-end test: tests/e2e/lib is importable; a gateway with a tokenizer."""

import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

from gateway import Gateway  # noqa: E402
from harness import MINI_TOKENIZER  # noqa: E402


@pytest.fixture
def tokenizers(tmp_path):
    """A tokenizer directory that knows the model `tiny`."""
    root = tmp_path / "tokenizers"
    shutil.copytree(MINI_TOKENIZER, root / "tiny")
    return root


@pytest.fixture
def gateway(tmp_path, tokenizers):
    with Gateway(str(tmp_path), tokenizers=tokenizers) as gw:
        yield gw
