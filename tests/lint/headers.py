#!/usr/bin/env python3
"""Compiles every header alone: each includes what it needs. C headers as C11 as well.

    headers.py COMPILER C_COMPILER [FLAGS ...]
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("sdk/include", "sdk/check", "core", "state", "plugins", "cli")


def check(job):
    argv, header = job
    done = subprocess.run([*argv, "-fsyntax-only", "-include", str(header), "-"], input="",
                          capture_output=True, text=True, check=False)
    return header, done.returncode, done.stderr


def main():
    cxx, cc, *flags = sys.argv[1:]
    include = [f"-I{ROOT}", f"-I{ROOT}/sdk/include", *flags]
    jobs = []
    for folder in FOLDERS:
        for header in sorted((ROOT / folder).rglob("*")):
            if header.suffix in (".hpp", ".h"):
                jobs.append(([cxx, "-std=c++20", "-x", "c++", *include], header))
            if header.suffix == ".h":
                jobs.append(([cc, "-std=c11", "-x", "c", "-Wall", "-Wextra", "-Wpedantic", "-Wpadded",
                              "-Werror", *include], header))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, code, text in pool.map(check, jobs):
            if code != 0:
                failed += 1
                print(f"{header.relative_to(ROOT)} does not stand alone:\n{text}")
    print(f"{len(jobs)} headers, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
