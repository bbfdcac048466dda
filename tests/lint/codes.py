#!/usr/bin/env python3
"""Every code that the management interface answers with has a row in core/admin/openapi/codes.cpp, and
every row is used.

A code is found by how it is written: first in a refusal after its status, first in a warning, in
`refused(status, code)` of a field, in `refuse(code` and `warn(code` of a plugin.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = "core/admin/openapi/codes.cpp"
CODE = r'"([a-z][a-z0-9_]*)"'
NAMES = "core/base/result.cpp"  # an Error's code becomes the answer's

CONTROL = [
    rf"[({{]\s*[45]\d\d\s*,\s*{CODE}",
    rf"\.refused\(\s*\d+\s*,\s*{CODE}",
    rf"outside\([^;\"]*{CODE}",
    rf"code\.empty\(\)\s*\?\s*{CODE}",
    rf"push_back\(\s*\{{\s*{CODE}\s*,",
    rf"Warning\s*\{{\s*{CODE}\s*,",
]
ELSEWHERE = [
    rf"Refusal\s*\{{\s*\d+\s*,\s*{CODE}",
    rf"warnings[_.]*(?:push_back|emplace_back)\(\s*\{{?\s*{CODE}",
    rf"rules::Warning\s*\{{\s*{CODE}",
]
PLUGINS = [rf"\.(?:refuse|warn)\(\s*{CODE}"]
FOLDERS = {"core/rules": CONTROL, "core/admin": CONTROL, "core/flow": ELSEWHERE,
           "core/app": ELSEWHERE, "state": ELSEWHERE, "plugins": PLUGINS}


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def codes_in(text, patterns):
    text = without_comments(text)
    return {m for p in patterns for m in re.findall(p, text)}


def sources():
    for folder, patterns in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.[ch]pp")):
            name = str(path.relative_to(ROOT))
            if not name.startswith("core/admin/openapi/"):
                yield name, path.read_text(), patterns


def main():
    rows = set(re.findall(rf"^    \{{{CODE}", (ROOT / TABLE).read_text(), re.M))
    used, literals = {}, set()
    for name, text, patterns in sources():
        literals |= set(re.findall(CODE, without_comments(text)))
        for code in codes_in(text, patterns):
            used.setdefault(code, name)
    names = re.findall(rf"return {CODE};", (ROOT / NAMES).read_text())
    literals |= set(names)
    found = [f"{name}: the code {code} has no row in {TABLE}"
             for code, name in sorted(used.items()) if code not in rows]
    found += [f"{TABLE}: no source uses {code}" for code in sorted(rows - literals)]
    found += [f"{NAMES}: the code {code} has no row in {TABLE}"
              for code in names if code not in rows and code not in ("ok", "unknown")]
    print("\n".join(found) if found else f"every code has its row: {len(rows)}")
    return 1 if found else 0


def self_test():
    text = """Refusal{409,
        "a_b", x}; // {400, "comment"}
        bad(411, "c_d", y); f.refused(400, "e"); w.push_back({"g_h", n, m});"""
    found = codes_in(text, CONTROL)
    assert found == {"a_b", "c_d", "e", "g_h"}, found
    assert codes_in('say{503, "data"}; rules::Refusal{400, "k_l"}', ELSEWHERE) == {"k_l"}
    assert codes_in('out.refuse(\n"m_n", f)', PLUGINS) == {"m_n"}
    print("codes are found in each way they are written")


if __name__ == "__main__":
    sys.exit(self_test() if "--self-test" in sys.argv else main())
