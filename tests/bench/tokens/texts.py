#!/usr/bin/env python3
"""Writes the texts of the tokenizer bench: four kinds, three sizes, each text seen once.

    texts.py OUTPUT_DIR

english: prose from installed documentation. code: installed Python. chinese: common characters at
random, so that no word comes twice: the worst case for a cache of words. mixed: pieces of all three.
One file a kind and size: for each text its length (4 bytes, little-endian), then its bytes. The texts
depend on what this machine has installed; compare only runs over the same files.
"""
import glob
import os
import random
import struct
import sys

SIZES = ((4 << 10, 200), (64 << 10, 24), (1 << 20, 2))
WANTED = 8 << 20  # bytes of source text a kind


def read_all(*patterns):
    parts, total = [], 0
    for pattern in patterns:
        for path in sorted(glob.glob(pattern, recursive=True)):
            try:
                with open(path, encoding="utf-8") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError):
                continue
            if len(text) > 2000:
                parts.append(text)
                total += len(text)
            if total > WANTED:
                return "\n".join(parts)
    return "\n".join(parts)


def chinese(rng, characters):
    # The two thousand code points from U+4E00 on that GB 2312 has at its first level are the common
    # ones; the codec knows which.
    common = [bytes((row, cell)).decode("gb2312") for row in range(0xB0, 0xBF)
              for cell in range(0xA1, 0xFF)]
    out = []
    for _ in range(characters):
        out.append(rng.choice(common))
        if rng.random() < 0.07:
            out.append("，")
        if rng.random() < 0.03:
            out.append("。\n")
    return "".join(out)


def windows(rng, source, count, size):
    out = []
    for _ in range(count):
        at = rng.randrange(max(1, len(source) - size))
        out.append(source[at : at + size].decode("utf-8", "ignore").encode())
    return out


def mixed(rng, sources, count, size):
    out = []
    for _ in range(count):
        parts, total = [], 0
        while total < size:
            name = rng.choice(sorted(sources))
            parts += windows(rng, sources[name], 1, min(size, rng.randrange(300, 2000)))
            total += len(parts[-1])
        out.append(b"\n".join(parts))
    return out


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    rng = random.Random(20)
    sources = {
        "english": read_all("/usr/share/doc/**/*.txt", "/usr/share/perl/**/*.pod",
                            "/usr/share/doc/**/README*", "/usr/share/common-licenses/*").encode(),
        "code": read_all("/usr/lib/python3/**/*.py", "/usr/lib/python3.*/**/*.py").encode(),
        "chinese": chinese(rng, 900_000).encode(),
    }
    for name, source in sources.items():
        if len(source) < 1 << 20:
            sys.exit(f"this machine has only {len(source)} bytes of {name} text")
    for size, count in SIZES:
        sets = {name: windows(rng, source, count, size) for name, source in sources.items()}
        sets["mixed"] = mixed(rng, sources, count, size)
        for name, texts in sets.items():
            with open(os.path.join(sys.argv[1], f"{name}-{size >> 10}K.bin"), "wb") as file:
                for text in texts:
                    file.write(struct.pack("<I", len(text)) + text)


if __name__ == "__main__":
    main()
