#!/usr/bin/env python3
"""No `f()->g()` as the range of a for.

What f() returned, a shared_ptr to the rules in force for instance, is destroyed before the first turn
(C++20), and the loop walks over freed memory as soon as another thread has put a new value in its place.
Name it first.
"""
import pathlib
import re
import sys

START = re.compile(r"\bfor\s*\(")
CALL_ARROW = re.compile(r"\)\s*->")


def inside(text, start):
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return text[start + 1:i]
    return ""


def faults(text):
    text = re.sub(r"//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", lambda m: " " * len(m[0]), text)
    for match in START.finditer(text):
        # for (init; condition; step) has two of them, a range at most one, before its colon.
        head = inside(text, match.end() - 1).split(";")
        range_of = re.split(r"(?<!:):(?!:)", head[-1], maxsplit=1)
        if len(head) < 3 and len(range_of) == 2 and CALL_ARROW.search(range_of[1]):
            yield text.count("\n", 0, match.start()) + 1


def self_test():
    assert list(faults("for (const A& a : book.table()->rules()) {}")) == [1]
    assert list(faults("x;\nfor (auto& a :\n     now(1, (2)) -> all) {}")) == [2]
    assert list(faults("const auto t = book.table();\nfor (const std::A& a : t->rules()) {}")) == []
    assert list(faults("for (int i = a ? 1 : b()->c(); i < 3; ++i) {}")) == []
    assert list(faults("for (const auto& m : service->pool->members()) { f()->g(); }")) == []
    assert list(faults("// for (a : b()->c())")) == []


def main():
    if "--self-test" in sys.argv:
        return self_test()
    found = [f"{path}:{line}: the range of a for is part of a temporary; name what the call returns"
             for folder in ("core", "state", "plugins", "cli", "sdk")
             for pattern in ("*.cpp", "*.hpp")
             for path in sorted(pathlib.Path(folder).rglob(pattern))
             for line in faults(path.read_text(errors="replace"))]
    print("\n".join(found))
    return 1 if found else None


if __name__ == "__main__":
    sys.exit(main())
