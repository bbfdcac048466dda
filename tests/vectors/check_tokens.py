#!/usr/bin/env python3
"""Compares `sluicectl tokens` with the golden lines of one set.

    check_tokens.py --sluicectl PROGRAM --kind tokens|chat --set NAME --tokenizers DIR [--templates DIR]

DIR of --tokenizers has MODEL/tokenizer.json (scripts/fetch-tokenizers); DIR of --templates has
NAME.jinja for the sets whose template is not in the tokenizer's package
(scripts/fetch-chat-templates). Without the files of the set the exit status is 77 (skipped).

A line with `error` must fail at the client's expense (code "invalid"), with that text where it is the
template's own. A line with `refused` may also fail. Lines without `ids` are compared by text only.
"""
import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CLOCK = "2025-03-07T09:05:03"
SKIPPED = 77
SHOWN = 5


def skip(why):
    print(f"skipped: {why}", file=sys.stderr)
    sys.exit(SKIPPED)


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def tokenizer_dir(args, model):
    folder = os.path.join(HERE, "tokenizers", model)
    if not os.path.exists(os.path.join(folder, "tokenizer.json")):
        folder = os.path.join(args.tokenizers, model)
    if not os.path.exists(os.path.join(folder, "tokenizer.json")):
        skip(f"no {model}/tokenizer.json in {args.tokenizers}; scripts/fetch-tokenizers fetches it")
    return folder


def model_dir(args, facts, work):
    """The tokenizer's directory, or a copy of it with the set's own template beside."""
    folder = tokenizer_dir(args, facts["tokenizer"])
    if facts["template"] == "package":
        return folder
    path = os.path.join(args.templates or "", f"{args.set}.jinja")
    if not args.templates or not os.path.exists(path):
        skip(f"no {args.set}.jinja in {args.templates}; scripts/fetch-chat-templates fetches it")
    with open(path, "rb") as file:
        text = file.read()
    if hashlib.sha256(text).hexdigest() != facts["template_sha256"]:
        sys.exit(f"{path} is not the template of this set")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        os.symlink(os.path.abspath(os.path.join(folder, name)), os.path.join(work, name))
    with open(os.path.join(work, "chat_template.jinja"), "wb") as file:
        file.write(text)
    return work


def run(args, folder, lines):
    command = [args.sluicectl, "tokens", "--dir", folder, "--jsonl", "--now", CLOCK]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} exited with {done.returncode}: {done.stderr}")
    got = [json.loads(line) for line in done.stdout.splitlines()]
    if [line["id"] for line in got] != [line["id"] for line in lines]:
        sys.exit("the answers are not those of the lines that were asked")
    return got


def short(text):
    text = repr(text)
    return text if len(text) <= 300 else f"{text[:150]} ... {text[-150:]}"


def first_difference(want, got):
    at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
    return f"at {at}: want {short(want[max(at - 20, 0):at + 80])}, got {short(got[max(at - 20, 0):at + 80])}"


def complaint(want, got):
    """What is wrong with an answer; None if nothing is."""
    if "refused" in want and "error" in got:
        return None if got["code"] == "invalid" else f"refused with code {got['code']}"
    if "error" in want:
        if "error" not in got:
            return f"should fail with {short(want['error'])}, rendered {short(got.get('rendered'))}"
        if got["code"] != "invalid":
            return f"should be the client's fault, is {got['code']}: {got['error']}"
        if want.get("error_type") == "TemplateError" and got["error"] != want["error"]:
            return f"should fail with {short(want['error'])}, says {short(got['error'])}"
        return None
    if "error" in got:
        return f"failed: {got['error']}"
    if "rendered" in want and got["rendered"] != want["rendered"]:
        return "text differs " + first_difference(want["rendered"], got["rendered"])
    if "ids" in want and got["ids"] != want["ids"]:
        return "ids differ " + first_difference(want["ids"], got["ids"])
    return None


def main():
    parser = argparse.ArgumentParser(description="Compares sluicectl tokens with golden lines.")
    parser.add_argument("--sluicectl", required=True)
    parser.add_argument("--kind", required=True, choices=("tokens", "chat"))
    parser.add_argument("--set", required=True)
    parser.add_argument("--tokenizers", required=True)
    parser.add_argument("--templates")
    args = parser.parse_args()

    lines = read_lines(os.path.join(HERE, args.kind, f"{args.set}.jsonl"))
    with tempfile.TemporaryDirectory() as work:
        if args.kind == "tokens":
            got = run(args, tokenizer_dir(args, args.set), lines)
        else:
            with open(os.path.join(HERE, "chat", "manifest.json"), encoding="utf-8") as file:
                facts = json.load(file)[args.set]
            folder = model_dir(args, facts, work)
            fixed = facts["template_vars"] if facts["template"] != "package" else {}
            asked = [{**line, "kwargs": {**fixed, **(line.get("kwargs") or {})}} for line in lines]
            got = run(args, folder, asked)
    wrong = [(want["id"], what) for want, answer in zip(lines, got)
             if (what := complaint(want, answer)) is not None]
    for name, what in wrong[:SHOWN]:
        print(f"{name}: {what}")
    print(f"{args.kind}/{args.set}: {len(lines) - len(wrong)} of {len(lines)} lines agree")
    return 1 if wrong or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
