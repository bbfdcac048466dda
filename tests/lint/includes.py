#!/usr/bin/env python3
"""Checks who may include whom: folders of the tree, and the rooms of core/ from left to right.

Exit 1 with one line a break. `--self-test` proves that each kind of break is found.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ["base", "net", "http", "json", "tokens", "kv", "rules", "fleet", "route", "plugin", "flow",
         "admin", "app"]
# Values and codecs without I/O that the management interface shares with the data plane.
ADMIN_VALUES = ("core/http/message.hpp", "core/http/head_parser.hpp", "core/http/body_decoder.hpp",
                "core/net/address.hpp")
# What a folder may include of the tree; "core/base/" alone is a room, "core/" all of them.
ALLOWED = {
    "sdk/include": ["sdk/include", "sluice/"],
    "sdk/check": ["sdk/check", "sluice/"],
    "sdk": ["sluice/", "sdk/"],
    "core": ["core/", "state/state.hpp", "sluice/", "sdk/check/schema.hpp"],
    "state": ["state/", "core/base/"],
    "plugins": ["sluice/"],  # and the plugin's own folder
    "cli": ["cli/", "core/base/", "core/json/", "core/tokens/", "core/plugin/", "sluice/"],
    "tests/sim": ["tests/sim/", "core/base/", "core/json/", "core/tokens/"],
}
# Libraries that have no business in a folder.
BANNED = {
    "core": [r"<sqlite3"],
    "state": [r"<Poco/", r"<zmq"],
    "plugins": [r"<Poco/", r"<sqlite3", r"<zmq"],
    "sdk/include": [r"<Poco/", r"<simdjson"],
    "core/base": [r"<Poco/", r"<simdjson"],
    "core/net": [r"<Poco/"],
    "core/http": [r"<Poco/"],
    "core/tokens": [r"<Poco/"],
    "core/kv": [r"<Poco/"],
    "core/route": [r"<Poco/"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)


def folder_of(path):
    """The longest entry of ALLOWED that holds the file; None for files nobody limits."""
    fits = [f for f in ALLOWED if path.startswith(f + "/")]
    return max(fits, key=len) if fits else None


def breaks_of(path, text):
    """The include lines of one file that may not be there."""
    out = []
    folder = folder_of(path)
    if folder is None:
        return out
    room = path.split("/")[1] if path.startswith("core/") else None
    for quote, target in INCLUDE.findall(text):
        line = f'{path}: {quote}{target}'
        for scope, patterns in BANNED.items():
            if path.startswith(scope + "/") and any(re.match(p, quote + target) for p in patterns):
                out.append(f"{line}: this library is not used in {scope}/")
        top = target.split("/")[0]
        in_tree = top in ("core", "state", "plugins", "sdk", "cli", "tui", "tests", "sluice")
        if not in_tree:
            continue
        allowed = list(ALLOWED[folder])
        if folder == "plugins":
            allowed.append("/".join(path.split("/")[:2]) + "/")
        if not any(target.startswith(a) for a in allowed):
            out.append(f"{line}: {folder}/ may not include it")
        if room and target.startswith("core/"):
            other = target.split("/")[1]
            if other not in ROOMS:
                out.append(f"{line}: no such room")
            elif ROOMS.index(other) > ROOMS.index(room):
                out.append(f"{line}: {room} stands left of {other}")
            elif (room == "admin" and other in ("flow", "plugin", "route", "fleet", "net", "http")
                  and target not in ADMIN_VALUES):
                out.append(f"{line}: admin asks through its providers")
    return out


def self_test():
    cases = [
        ("core/net/x.cpp", '#include "core/http/server.hpp"\n', True),
        ("core/http/x.cpp", '#include "core/net/loop.hpp"\n', False),
        ("core/kv/x.cpp", '#include "plugins/vllm/events.hpp"\n', True),
        ("plugins/vllm/x.cpp", '#include "core/base/result.hpp"\n', True),
        ("plugins/vllm/x.cpp", '#include "plugins/vllm/events.hpp"\n#include "sluice/sdk.hpp"\n', False),
        ("plugins/vllm/x.cpp", '#include "plugins/selectors/cursor.hpp"\n', True),
        ("state/x.cpp", '#include <Poco/Foundation.h>\n', True),
        ("core/rules/x.cpp", '#include <sqlite3.h>\n', True),
        ("core/rules/x.cpp", '#include "state/sqlite_store.hpp"\n', True),
        ("tests/sim/x.cpp", '#include "core/kv/index.hpp"\n', True),
        ("core/admin/x.cpp", '#include "core/flow/conductor.hpp"\n', True),
        ("sdk/include/sluice/sdk/x.h", '#include "core/base/result.hpp"\n', True),
    ]
    wrong = [c for c in cases if bool(breaks_of(c[0], c[1])) != c[2]]
    for case in wrong:
        print("self test:", case)
    return 1 if wrong else 0


def main():
    if "--self-test" in sys.argv:
        return self_test()
    found = []
    for top in ("sdk", "core", "state", "plugins", "cli", "tests/sim"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".cpp", ".hpp", ".h", ".c"):
                found += breaks_of(path.relative_to(ROOT).as_posix(), path.read_text())
    print("\n".join(found) if found else "includes point where they may")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
