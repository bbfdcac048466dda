"""The clients people really use. They are fetched once, into the build folder, and skipped with a
clear message where the package registry cannot be had."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from gateway import Gateway, rule
from harness import MINI_TOKENIZER, ROOT, events_config, start_sim

CACHE = pathlib.Path(os.environ.get("SLUICE_BUILD_DIR", ROOT / "build" / "release")) / "e2e-clients"


def fetch(mark, commands, cwd):
    """Runs the commands unless `mark` is there; skips the test when one fails."""
    if mark.exists():
        return
    cwd.mkdir(parents=True, exist_ok=True)
    for command in commands:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"cannot be fetched: {' '.join(map(str, command))}: {done.stderr[-300:]}")
    mark.write_text("ok\n")


@pytest.fixture(scope="session")
def openai_python():
    """A Python interpreter that has the openai package."""
    folder = CACHE / "python"
    python = folder / "venv" / "bin" / "python"
    fetch(folder / "done", [[sys.executable, "-m", "venv", "venv"],
                            [str(python), "-m", "pip", "install", "-q", "openai==1.109.1"]], folder)
    return str(python)


@pytest.fixture(scope="session")
def openai_node():
    """A folder in which node finds openai@4."""
    if shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    folder = CACHE / "node"
    fetch(folder / "done", [["npm", "init", "-y"],
                            ["npm", "install", "--silent", "--no-fund", "--no-audit", "openai@4"]],
          folder)
    return folder


@pytest.fixture
def stand(tmp_path):
    """A gateway with a KV-exact rule over two simulated engines; gives the base URL for clients."""
    root = tmp_path / "tokenizers"
    shutil.copytree(MINI_TOKENIZER, root / "tiny")
    flags = ["--model", MINI_TOKENIZER, "--served-model-name", "tiny", "--block-size", 16,
             "--enable-prompt-tokens-details", "--kv-events-config", events_config()]
    with start_sim(*flags) as a, start_sim(*flags) as b, Gateway(str(tmp_path), tokenizers=root) as gw:
        vip = gw.vip()
        body = rule(vip, [a.address, b.address], kvExactMode=3, kvColdSeedEvery=0)
        gw.create(body)
        gw.wait_signal(body, ("ok", "quiet"))
        gw.vip_address = vip
        yield gw
