#!/usr/bin/env python3
"""Compares `sluicectl blockhash` with the block hashes of vector files.

    check_blockhash.py SLUICECTL PLUGINDIR FILE...

Each line goes in without what it expects, so that nothing of the answer can be read from it.
"""
import json
import pathlib
import subprocess
import sys

ANSWERS = ("expected", "blocks", "full_block_hashes", "first_preimage_hex", "note")


def folded(text):
    """A hash as the wire has it to 64 bits: a decimal number, or the first eight bytes of a digest."""
    return str(int(text[:16], 16)) if len(text) == 64 else text


def wanted(line):
    if "algo" in line:
        return line["expected"]["u64"]
    return [folded(h) for h in line["full_block_hashes"]]


def run(program, folder, text):
    return subprocess.run([program, "blockhash", "--jsonl", "--plugins", folder], input=text,
                          capture_output=True, text=True, check=False)


def check_bad_lines(program, folder):
    bad = ['{"id":1', '{"id":2}', '{"id":"3","algo":"sha256","block_size":0,"token_ids":[1]}',
           '{"id":4,"algo":"nosuch","seed":"0","block_size":2,"token_ids":[1,2]}',
           '{"id":5,"algo":"sha256","seed":"0","block_size":2,"token_ids":[1,"x"]}',
           '{"id":6,"algo":"sha256","seed":"0","block_size":2,"token_ids":[1,2],"extra_keys":[{}]}',
           '{"id":7,"algo":"sha256","seed":"0","block_size":2,"token_ids":[1,2],"extra_keys":[]}',
           '{"id":8,"scheme":"v1_block_key","tokens_per_block":2,"prompt_token_ids":[1,2],'
           '"token_rule":"some"}', '[]']
    done = run(program, folder, "\n".join(bad) + "\n\n")
    got = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1, done
    assert [g["id"] for g in got] == [None, 2, "3", 4, 5, 6, 7, 8, None], got
    assert all("error" in g and "hashes" not in g for g in got), got
    for args in ([], ["--jsonl", "x"], ["--jsonl", "--nosuch"], ["--plugins", folder]):
        done = subprocess.run([program, "blockhash", *args], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 2 and "Usage: sluicectl blockhash" in done.stderr, (args, done)


def main():
    program, folder, *files = sys.argv[1:]
    check_bad_lines(program, folder)
    for file in map(pathlib.Path, files):
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
        asked = "".join(json.dumps({k: v for k, v in line.items() if k not in ANSWERS}) + "\n"
                        for line in lines)
        done = run(program, folder, asked)
        got = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(got) == len(lines), (file, done.stderr)
        wrong = [(a, wanted(line)) for line, a in zip(lines, got)
                 if a.get("id") != line["id"] or a.get("hashes") != wanted(line)]
        for answer, want in wrong:
            print(f"{file.name}: {json.dumps(answer)[:300]}\n    wanted {want[:3]} ...")
        assert not wrong, f"{len(wrong)} of {len(lines)} lines of {file.name} differ"
        assert done.returncode == 0, done
        print(f"{file.name}: {len(lines)} lines agree")


if __name__ == "__main__":
    main()
