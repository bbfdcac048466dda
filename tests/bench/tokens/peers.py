#!/usr/bin/env python3
"""The other side of bench-tokens: the same texts through an encoder from PyPI, one thread.

    python3 -m venv v && v/bin/pip install tokenizers fastokens gigatoken
    v/bin/python peers.py TOKENIZER_JSON TEXTS_DIR tokenizers|fastokens|gigatoken [IDS_DIR]

Prints MB/s of UTF-8 by process CPU time, warm as bench-tokens warms. With IDS_DIR (written by
bench-tokens --ids) it also compares the ids.
"""
import os
import struct
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"


def encoder(name, path):
    if name == "tokenizers":
        from tokenizers import Tokenizer
        tokenizer = Tokenizer.from_file(path)
        return lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    if name == "fastokens":
        import fastokens
        tokenizer = fastokens.Tokenizer.from_file(path)
        return tokenizer.encode
    if name == "gigatoken":
        import gigatoken
        tokenizer = gigatoken.Tokenizer(path)
        return tokenizer.encode
    sys.exit(f"no such encoder: {name}")


def texts_of(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        yield data[at + 4 : at + 4 + length].decode()
        at += 4 + length


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    begin = time.perf_counter()
    encode = encoder(sys.argv[3], sys.argv[1])
    print(f"{sys.argv[3]}: loaded in {time.perf_counter() - begin:.2f} s")
    for name in sorted(os.listdir(sys.argv[2])):
        texts = list(texts_of(os.path.join(sys.argv[2], name)))
        for text in texts[: max(1, len(texts) // 8)]:
            encode(text)
        begin = time.process_time()
        for text in texts:
            encode(text)
        spent = time.process_time() - begin
        size = sum(len(text.encode()) for text in texts)
        print(f"{name[:-4]:14} {size / spent / 1e6:8.1f} MB/s")
        if len(sys.argv) == 5:
            with open(os.path.join(sys.argv[4], name), "rb") as file:
                ours = file.read()
            theirs = b"".join(
                struct.pack(f"<{len(ids)}I", *ids)
                for ids in ([int(i) for i in getattr(e, "ids", e)] for e in map(encode, texts)))
            print("    ids " + ("agree" if ours == theirs else "DIFFER"))


if __name__ == "__main__":
    main()
