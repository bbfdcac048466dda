#!/usr/bin/env python3
"""No co_await in the condition of an if, switch or while.

g++ 12.2 evaluates such a condition on uninitialised memory, without a word. A condition that first names
the result (`if (const bool ok = co_await f(); ok)`) is compiled rightly.
"""
import pathlib
import re
import sys

START = re.compile(r"\b(if|switch|while)\s*(?:constexpr\s*)?\(")
NAMED = re.compile(r"^[\w:<>,&*\s\[\]]+=\s*co_await\b[^;]*;[^;]*$")


def condition(text, start):
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return text[start + 1:i]
    return ""


def faults(text):
    text = re.sub(r"//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", lambda m: " " * len(m[0]), text)
    for match in START.finditer(text):
        inside = condition(text, match.end() - 1)
        if "co_await" in inside and not NAMED.match(inside.strip()):
            yield text.count("\n", 0, match.start()) + 1


def self_test():
    assert list(faults("if (co_await f()) {}")) == [1]
    assert list(faults("x;\nwhile (!co_await f(1, (2))) {}")) == [2]
    assert list(faults("switch (\n co_await f()) {}")) == [1]
    assert list(faults("if (const bool ok = co_await f(a); ok) {}")) == []
    assert list(faults("const bool ok = co_await f(); if (ok) {} // if (co_await f())")) == []


def main():
    if "--self-test" in sys.argv:
        return self_test()
    found = [f"{path}:{line}: a co_await in a condition; name its result first"
             for folder in ("core", "plugins", "cli", "tests")
             for pattern in ("*.cpp", "*.hpp")
             for path in sorted(pathlib.Path(folder).rglob(pattern))
             for line in faults(path.read_text(errors="replace"))]
    print("\n".join(found))
    return 1 if found else None


if __name__ == "__main__":
    sys.exit(main())
