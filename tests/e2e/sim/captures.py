"""Recorded exchanges with a real vLLM 0.32, and how a simulated one is compared to them.

What is left out of the comparison follows tests/vectors/vllm_http/README.md (Volatile): ids, dates,
generated text, numbers of logprobs, how bytes split over reads, the order among choices.
"""

import json
import re

from harness import VECTORS

CAPTURES = VECTORS / "vllm_http" / "captures.jsonl"

# Texts of fixed meaning; any other text is compared by its type alone.
EXACT = {"object", "model", "finish_reason", "role", "type", "name", "param", "message", "detail",
         "owned_by", "parent", "organization", "status", "index", "code", "version",
         "max_model_len", "server_load", "error", "arguments_valid"}
# Lists whose length is the tokenizer's business.
TOKEN_LISTS = {"tokens", "token_strs", "token_ids", "prompt_token_ids", "prompt_logprobs",
               "text_offset", "token_logprobs", "top_logprobs", "content", "bytes"}


def load():
    with open(CAPTURES, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def text_of(capture):
    """Everything the engine sent, in order."""
    return b"".join(bytes.fromhex(c["hex"]) if "hex" in c else c.get("text", "").encode()
                    for c in capture["response"].get("chunks", []))


def bodies_of(capture):
    """The bodies of the final replies (more than one when requests were pipelined)."""
    raw, out = text_of(capture), []
    while raw:
        head, _, raw = raw.partition(b"\r\n\r\n")
        if b" 100 " in head.split(b"\r\n")[0]:
            continue
        fields = dict(l.lower().split(b": ", 1) for l in head.split(b"\r\n")[1:] if b": " in l)
        body = b""
        if capture["request"].get("method") == "HEAD":
            pass
        elif fields.get(b"transfer-encoding") == b"chunked":
            while True:
                size, _, raw = raw.partition(b"\r\n")
                n = int(size, 16)
                body, raw = body + raw[:n], raw[n + 2:]
                if n == 0:
                    break
        else:
            n = int(fields.get(b"content-length", b"0"))
            body, raw = raw[:n], raw[n:]
        out.append(body)
    return out


def collapse(items):
    """Equal neighbours count once."""
    out = []
    for item in items:
        if not out or out[-1] != item:
            out.append(item)
    return out


def shape(value, key="", exact_counts=False):
    """What must be equal of a JSON value: keys in order, nulls, types, fixed texts."""
    if isinstance(value, dict):
        if value and all(k.isdigit() for k in value):  # prompt_logprobs: keyed by token id
            return ["by-id", len(value), shape(next(iter(value.values())), "", exact_counts)]
        return [(k, shape(v, k, exact_counts)) for k, v in value.items()]
    if isinstance(value, list):
        if key == "top_logprobs" and value and not any(
                isinstance(v, dict) and "token" in v for v in value):
            items = [None if v is None else ["by-text", len(v)] for v in value]
        else:
            items = [shape(v, key + "[]", exact_counts) for v in value]
        keeps = exact_counts and key != "bytes"
        return items if keeps or key not in TOKEN_LISTS else collapse(items)
    if value is None:
        return None
    if key in EXACT:
        return value
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else (
        type(value).__name__)


def counts(value):
    """The usage numbers of a reply or of a stream's chunk, None without any."""
    usage = value.get("usage") if isinstance(value, dict) else None
    if not usage:
        return None
    return {k: usage[k] for k in ("prompt_tokens", "total_tokens", "completion_tokens")}


def headers_of(pairs):
    """What must be equal of a header list: names, and the values that mean something."""
    fixed = {"content-type", "connection", "location", "allow", "vary", "server",
             "transfer-encoding"}
    return sorted((k.lower(), v if k.lower() in fixed else "") for k, v in pairs)


def sse_events(body):
    """The data of each event, checking that the stream is nothing but events."""
    text = body.decode()
    assert text.endswith("\n\n")
    events = text.split("\n\n")[:-1]
    assert all(e.startswith("data: ") for e in events)
    return [e[len("data: "):] for e in events]


def by_choice(events):
    """Events of each choice in order; those of none under -1 (usage, errors, [DONE])."""
    out = {}
    for data in events:
        value = data if data == "[DONE]" else json.loads(data)
        choices = value.get("choices") if isinstance(value, dict) else None
        out.setdefault(choices[0]["index"] if choices else -1, []).append(value)
    return out


def replace_number(body, old, new):
    return re.sub(rf"(?<!\d){old}(?!\d)", str(new), body)
