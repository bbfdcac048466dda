"""Every prediction of reuse is what the engine then reports."""
import collections
import os
import random
import time

from answers import report
from stand import Run


def test_200_prompts_and_40_chats_are_predicted_as_the_engine_reports(stand):
    run, side = Run(stand, int(os.environ.get("SLUICE_REAL_SEED", "20"))), random.Random(5)
    reuse, chosen = collections.Counter(), collections.Counter()
    begun = time.monotonic()
    while receipt := run.step():
        predicted = receipt["tokens"]["predicted_cached"] or 0
        reuse["prompt"] += receipt["prompt_tokens"]
        reuse["cached"] += predicted
        reuse["hits"] += predicted > 0
        reuse["unseen"] += receipt["tokens"]["reported_cached"] is None
        matches = [c["matched_blocks"] for c in receipt["candidates"]]
        reuse["contested"] += min(matches) > 0 and min(matches) != max(matches)
        chosen[receipt["legs"][-1]["endpoint"]] += 1
        if len(run.history) % 4 == 3:
            stand.send_beside(side.choice(stand.engines).address, run.work.beside(run.history))
    removed = [s.removed for s in stand.shadows.values()]
    states = [(e["kv"]["signal"], e["kv"]["attestation"]) for e in stand.endpoints().values()]
    report("prediction", run.wrong, len(run.history), [
        f"{reuse['prompt']} prompt tokens, {reuse['cached']} of them cached, {reuse['hits']} hits",
        f"requests an engine {sorted(chosen.values())}, {reuse['contested']} where both held some, "
        f"not equally much, {reuse['unseen']} replies whose usage the gateway did not see",
        f"blocks evicted {removed}, signal and attestation {states}, "
        f"{time.monotonic() - begun:.0f} s"])
    assert len(run.history) == 240
    # A run that never evicts, never hits or never has a choice would prove nothing.
    assert min(removed) > 200 and reuse["hits"] > 80 and reuse["contested"] > 10
    assert all(state == ("ok", "attested") for state in states)
    assert not run.wrong
