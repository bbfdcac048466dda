"""What a client was told, and whether it was right.

    end, more = verdict(status, said, is_whole, is_stream, right)    # raises Wrong

Ends: `right` (the whole text), `refused` (an error of the gateway's), `relayed` (one of an engine's),
`ended` (a part of the text, then an error event), `broken` (a plain answer whose connection broke).
"""

import json

INNER = (b"opaque_state", b"remote_block_ids", b"transfer_id")


class Wrong(Exception):
    """A client was told what is not so, or nothing it can read."""


class Right:
    """What one engine says to a request."""

    def __init__(self, reply):
        self.texts = {c["index"]: text_of(c, "message") for c in reply["choices"]}
        self.prompt_tokens = reply["usage"]["prompt_tokens"]

    def check_usage(self, usage):
        if usage["prompt_tokens"] != self.prompt_tokens:
            raise Wrong(f"usage {usage} for {self.prompt_tokens} tokens")

    def check(self, texts):
        if texts != self.texts:
            raise Wrong(f"{texts} for {self.texts}")

    def check_part(self, texts):
        if not all(self.texts[i].startswith(text) for i, text in texts.items()):
            raise Wrong(f"{texts} as a part of {self.texts}")


def text_of(choice, part):
    return (choice["text"] if "text" in choice else choice[part].get("content")) or ""


def verdict(status, said, is_whole, is_stream, right):
    """`right` may be None for an error."""
    if word := next((w for w in INNER if w in said), None):
        raise Wrong(f"an inner word: {word}")
    if status != 200:
        if not is_whole:
            raise Wrong(f"half of a {status}")
        return of_error(status, json.loads(said))
    if is_stream:
        if not is_whole:
            raise Wrong(f"a stream without an end: {said[-200:]!r}")
        return of_stream(said.decode(), right)
    if not is_whole:
        return "broken", None
    reply = json.loads(said)
    right.check_usage(reply["usage"])
    right.check({c["index"]: text_of(c, "message") for c in reply["choices"]})
    return "right", None


def of_error(status, reply):
    # One engine wraps its errors, the other does not.
    error = reply["error"] if isinstance(reply.get("error"), dict) else reply
    if status < 400 or not error.get("message"):
        raise Wrong(f"an error that says nothing: {status} {reply}")
    if isinstance(error.get("code"), str) and error.get("request_id"):
        return "refused", f"{status} {error['code']}"
    return "relayed", f"{status} {error['message'][:60]}"


def of_stream(said, right):
    *events, rest = said.split("\n\n")
    if rest or not events or not all(e.startswith("data: ") for e in events):
        raise Wrong(f"no events: {said[-300:]!r}")
    parsed = [json.loads(e[6:]) for e in events if e != "data: [DONE]"]
    error = parsed.pop() if parsed and "choices" not in parsed[-1] else None
    if error:
        error = error["error"] if isinstance(error.get("error"), dict) else error
    # An engine may end its own error with [DONE]; the gateway's has none.
    if events[-1] != "data: [DONE]" and not (
            error and isinstance(error.get("code"), str) and error["message"]):
        raise Wrong(f"a stream that stops: {said[-300:]!r}")
    texts = {}
    for event in parsed:
        for choice in event["choices"]:
            i = choice["index"]
            texts[i] = texts.get(i, "") + text_of(choice, "delta")
        if usage := event.get("usage"):
            right.check_usage(usage)
    if error:
        right.check_part(texts)
        return "ended", error["code"]
    right.check(texts)
    return "right", None
