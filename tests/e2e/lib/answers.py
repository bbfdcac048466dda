"""What an engine answered, read out of a reply, and the summary of a phase of the real lanes."""
import json
import os


class Answer:
    """Status, usage, text and token ids of one reply, streamed or not."""

    def __init__(self, reply, body):
        self.status = reply.status
        self.text, self.prompt, self.output, self.usage = "", None, [], {}
        self.logprobs, self.finish = [], None
        if reply.status != 200:
            self.text = reply.body.decode(errors="replace")
            return
        events = ([json.loads(e) for e in reply.events() if e != "[DONE]"] if body.get("stream")
                  else [reply.json()])
        for event in events:
            self.take(event)

    def take(self, event):
        self.usage = event.get("usage") or self.usage
        self.prompt = event.get("prompt_token_ids") or self.prompt
        for choice in event.get("choices", []):
            if choice.get("index", 0) != 0:
                continue
            self.prompt = choice.get("prompt_token_ids") or self.prompt
            self.output += choice.get("token_ids") or []
            self.finish = choice.get("finish_reason") or self.finish
            said = choice.get("logprobs") or {}
            self.logprobs += said.get("token_logprobs") or [
                c["logprob"] for c in said.get("content") or []]
            part = choice.get("message") or choice.get("delta") or choice
            self.text += part.get("content") or part.get("text") or ""

    @property
    def cached(self):
        return (self.usage.get("prompt_tokens_details") or {}).get("cached_tokens")


def report(title, wrong, total, more):
    """The summary of a phase, on the terminal and in SLUICE_REAL_REPORT if that is set."""
    lines = [f"{title}: {len(wrong)} wrong of {total}", *(f"  {line}" for line in more)]
    for ask, problems, receipt in wrong:
        lines.append(f"  {receipt['id']} {ask.kind}: {'; '.join(problems)}")
        keys = ("prompt_tokens", "candidates", "misses", "tokens")
        lines.append("    " + json.dumps({k: receipt[k] for k in keys}))
    say(lines)


def say(lines):
    text = "\n".join(lines)
    print("\n" + text, flush=True)
    if os.environ.get("SLUICE_REAL_REPORT"):
        with open(os.environ["SLUICE_REAL_REPORT"], "a") as f:
            f.write(text + "\n")
