#!/usr/bin/env python3
"""docs/operations.md explains every word the gateway gives as a reason, and none it does not give.

Words of KV signals (plugins/, core/route/kv_member.cpp), of kvexactstatus (core/admin/condition.cpp), of
misses (core/route/, core/flow/), of excluded candidates (core/fleet/pool.cpp) and of verdicts (core/flow/)
are found by how they are written. Tables whose first column is one of HEADINGS may hold no others.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/operations.md"
HEADINGS = ("`signal`", "`misses`", "`verdict`")
WORD = re.compile(r'"([a-z]+(?:_[a-z]+)*(?:,[a-z_]+)*)"')

# file or folder, statements of which all words count
SIGNALS = (r"\b(?:word|say|report|refused|count)\(\s*(?:SLUICE_|state,)[^;{]*;|\breason = \"[^;]*;"
           r"|\bLack\w* ?\{[^;]*;|\breturn \{\"[^;]*;")
PLACES = [
    ("plugins/vllm", SIGNALS),
    ("plugins/trtllm", SIGNALS),
    ("core/route/kv_member.cpp", r"\breturn [^;]*;|\breason = \"[^;]*;"),
    ("core/admin/condition.cpp", r"\bbecause\([^;]*;"),
    ("core/route", r"\bmiss = [^;]*;|\bpass\(\"[^;]*;|\bwhen_none = [^;]*;|exclude\([^;]*;"),
    ("core/route/kv_exact_tier.cpp", r"\breturn [^;]*;|kNothingMatches = [^;]*;"),
    ("core/route/selector_tier.cpp", r"\breturn [^;]*;"),
    ("core/fleet/pool.cpp", r"\breturn [^;]*;"),
    ("core/flow", r"\bmiss = [^;]*;|misses\.push_back\([^;]*;|\bverdict = [^;]*;|Said\{\"\w+\""),
]


def words_in(text, statements):
    text = re.sub(r"//[^\n]*", "", text)
    found = set()
    for statement in re.findall(statements, text):
        for words in WORD.findall(statement):
            found |= set(words.split(","))
    return found


def said_by_the_program():
    said = {}
    for place, statements in PLACES:
        path = ROOT / place
        assert path.exists(), f"{place} is gone"
        files = [path] if path.is_file() else sorted(path.rglob("*.cpp"))
        for file in files:
            for word in words_in(file.read_text(), statements):
                said.setdefault(word, str(file.relative_to(ROOT)))
    return said


def tables(page):
    """Words of the cells before the last, of tables under one of HEADINGS."""
    found, inside = set(), False
    for line in page.splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")] if line.startswith("|") else []
        inside = bool(cells) and (inside or cells[0] in HEADINGS)
        if inside and cells[0] not in HEADINGS:
            for cell in cells[:-1]:
                for words in re.findall(r"`([a-z_,]+)`", cell):
                    found |= set(words.split(","))
    return found


def main():
    page = (ROOT / PAGE).read_text()
    explained = {w for words in re.findall(r"`([a-z_,]+)`", page) for w in words.split(",")}
    said = said_by_the_program()
    found = [f"{file}: the word {word} is not in {PAGE}"
             for word, file in sorted(said.items()) if word not in explained]
    found += [f"{PAGE}: nothing says the word {word}" for word in sorted(tables(page) - set(said))]
    print("\n".join(found) if found else f"every reason is explained: {len(said)}")
    return 1 if found else 0


def self_test():
    text = """say(SLUICE_KV_DEAD, SLUICE_WHY_NONE, 1, late ? "a_b" : "c",
                  "words for people"); // say(SLUICE_X, "no")
              out.reason = "d"; other("e");"""
    assert words_in(text, SIGNALS) == {"a_b", "c", "d"}, words_in(text, SIGNALS)
    page = "| `signal` | `reason` | what |\n|---|---|---|\n| `ok` | `a,b` | `c` |\n\n| `d` |\n"
    assert tables(page) == {"ok", "a", "b"}, tables(page)
    print("words are found in sources and tables")


if __name__ == "__main__":
    sys.exit(self_test() if "--self-test" in sys.argv else main())
