#!/usr/bin/env python3
"""Checks how sluicectl answers to wrong and right command lines.  check_cli.py SLUICECTL MODELDIR"""
import json
import subprocess
import sys


def run(program, *args, text=""):
    return subprocess.run([program, *args], input=text, capture_output=True, text=True, check=False)


def main():
    program, folder = sys.argv[1:]
    for args in ([], ["nosuch"], ["tokens"], ["tokens", "--dir", folder], ["tokens", "--jsonl"],
                 ["tokens", "--nosuch"], ["tokens", "--dir"], ["tokens", "x"], ["tokens", "--jsonl=1"],
                 ["tokens", "--dir", folder, "--dir", folder, "--jsonl"],
                 ["tokens", "--dir", folder, "--jsonl", "--now", "noon"],
                 ["tokens", "--dir", folder, "--jsonl", "--engine", "x"]):
        done = run(program, *args)
        assert done.returncode == 2, (args, done)
        assert "Usage: sluicectl" in done.stderr and not done.stdout, (args, done)
    for args in (["--help"], ["help"], ["tokens", "--help"]):
        done = run(program, *args)
        assert done.returncode == 0 and done.stdout.startswith("Usage: sluicectl"), (args, done)
        assert not done.stderr, (args, done)

    done = run(program, "tokens", "--dir", "/nonexistent", "--jsonl")
    assert done.returncode == 1 and "tokenizer.json" in done.stderr, done

    lines = [{"id": "t", "text": "hi \u00e9\U0001f600"}, {"id": 7, "messages": []}, {"id": None},
             {"id": "m", "messages": [{"role": "user", "content": "\u2028\u0000"}]}]
    text = "".join(json.dumps(line) + "\n" for line in lines) + "\n"
    done = run(program, "tokens", f"--dir={folder}", "--jsonl", text=text)
    assert done.returncode == 0 and done.stdout.isascii(), done
    got = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["id"] for line in got] == ["t", 7, None, "m"], got
    assert got[0]["ids"] and "rendered" not in got[0], got
    assert got[1]["code"] == "invalid" and got[2]["code"] == "invalid", got
    assert "\u2028\u0000" in got[3]["rendered"] and got[3]["ids"], got

    done = run(program, "tokens", "--dir", folder, "--jsonl", text='{"id"\n{"id":1,"text":"a"}\n')
    assert done.returncode == 1, done
    assert [json.loads(line).get("id") for line in done.stdout.splitlines()] == [None, 1], done
    print("sluicectl answers as it should")


if __name__ == "__main__":
    main()
