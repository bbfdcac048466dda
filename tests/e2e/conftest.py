"""Makes tests/e2e/lib importable from every end-to-end test."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))
