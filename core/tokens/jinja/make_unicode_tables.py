#!/usr/bin/env python3
"""Writes unicode_tables.cpp from this interpreter's Unicode data (CPython 3.11: Unicode 14.0).

Usage: make_unicode_tables.py > unicode_tables.cpp
"""
import sys
import unicodedata

CLASSES = {
    "Printable": str.isprintable,
    "Alpha": str.isalpha,
    "Decimal": str.isdecimal,
    "Digit": str.isdigit,
    "Numeric": str.isnumeric,
    "Upper": lambda c: c.isupper(),
    "Lower": lambda c: c.islower(),
    "Title": lambda c: unicodedata.category(c) == "Lt",
}
MID_LETTERS = "'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a"
CODES = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def ranges(test):
    out = []
    for code in CODES:
        if test(chr(code)):
            if out and out[-1][1] == code - 1:
                out[-1][1] = code
            else:
                out.append([code, code])
    return out


def case_runs(mapping):
    runs, special = [], []
    for code in CODES:
        to = mapping(chr(code))
        if to == chr(code):
            continue
        if len(to) > 1:
            special.append((code, to))
            continue
        delta = ord(to) - code
        if runs and runs[-1][3] == delta:
            first, last, step, _ = runs[-1]
            gap = code - last
            if gap in (1, 2) and (first == last or gap == step):
                runs[-1][1], runs[-1][2] = code, gap
                continue
        runs.append([code, code, 1, delta])
    return runs, special


def write_table(name, kind, rows):
    print(f"constexpr {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        if len(line) + len(row) > 96:
            print(line)
            line = "   "
        line += " " + row + ","
    print(line)
    print("};\n")


def main():
    print("// Made by make_unicode_tables.py from Unicode " + unicodedata.unidata_version + ".")
    print("// clang-format off")
    print('#include "core/tokens/jinja/unicode_tables.hpp"\n')
    print("namespace sluice::tokens::jinja {\nnamespace {\n")
    for name, test in CLASSES.items():
        write_table("k" + name, "CodeRange", [f"{{{a:#x},{b:#x}}}" for a, b in ranges(test)])
    ignorable = ranges(lambda c: unicodedata.category(c) in ("Mn", "Me", "Cf", "Lm", "Sk") or c in MID_LETTERS)
    write_table("kIgnorable", "CodeRange", [f"{{{a:#x},{b:#x}}}" for a, b in ignorable])
    for name, mapping in (("Upper", str.upper), ("Lower", str.lower), ("Title", str.title)):
        runs, special = case_runs(mapping)
        write_table(f"k{name}Runs", "CaseRun", [f"{{{a:#x},{b:#x},{s},{d}}}" for a, b, s, d in runs])
        rows = []
        for code, to in special:
            cells = ",".join(f"{ord(c):#x}" for c in to) + ",0" * (3 - len(to))
            rows.append(f"{{{code:#x},{{{cells}}}}}")
        write_table(f"k{name}Special", "CaseSpecial", rows)
    print("}  // namespace\n")
    for name in CLASSES:
        print(f"const std::span<const CodeRange> k{name}Ranges = k{name};")
    print("const std::span<const CodeRange> kCaseIgnorableRanges = kIgnorable;")
    for name in ("Upper", "Lower", "Title"):
        print(f"const CaseTable k{name}Case = {{k{name}Runs, k{name}Special}};")
    print("\n}  // namespace sluice::tokens::jinja")


if __name__ == "__main__":
    sys.exit(main())
