"""What is believed of an engine ends when it does: restart, cleared cache, a gateway that comes later."""
import time

from answers import report
from harness import exchange, wait_until
from stand import Run


def test_no_prediction_is_wrong_before_during_and_after_a_restart(stand):
    run = Run(stand, 21)
    run.steps(30)
    engine, other = stand.engines
    shadow = stand.shadows[engine.address]
    held = shadow.held
    assert held > 50

    engine.kill()
    # While it is away the other answers everything: without its shadow it is not compared.
    del stand.shadows[engine.address]
    run.steps(10)
    assert all(f["legs"][-1]["endpoint"] == other.address for f in stand.gateway.flows(limit=10))

    engine.start()
    engine.wait_ready()
    ready_at = time.monotonic()
    shadow.restart()
    stand.shadows[engine.address] = shadow

    def is_back():
        seen = stand.endpoints()[engine.address]
        return seen["state"] == "active" and seen["kv"]["blocks"] == 0
    wait_until(is_back, 30, "the old inventory is dropped")
    dropped_s = time.monotonic() - ready_at
    run.steps(80)
    filled = stand.endpoints()[engine.address]["kv"]["blocks"]
    report("restart", run.wrong, len(run.history), [
        f"{held} blocks held before the kill, dropped {dropped_s:.1f} s after the new process was "
        f"ready, {filled} blocks at the end"])
    assert filled > 50
    assert not run.wrong


def test_a_cleared_cache_is_known_with_the_next_events(stand):
    run = Run(stand, 22)
    run.steps(20)
    engine = stand.engines[1]
    held = stand.shadows[engine.address].held
    reply = exchange(engine.address, "POST", "/reset_prefix_cache", {}, limit_s=30)
    assert reply.status == 200, reply.body
    # An engine that was cleared while idle says so with the events of its next request.
    stand.send_beside(engine.address, run.work.beside(run.history))
    assert stand.shadows[engine.address].held < held / 2
    run.steps(40)
    report("cleared cache", run.wrong, len(run.history), [f"{held} blocks held before"])
    assert not run.wrong


def test_a_gateway_that_starts_later_knows_what_the_engines_hold(stand):
    run = Run(stand, 23)
    run.steps(20)
    held = {a: s.held for a, s in stand.shadows.items()}
    stand.gateway.kill()
    stand.gateway.start()
    begun = time.monotonic()
    stand.settle()
    learnt_s = time.monotonic() - begun
    run.steps(40)
    report("gateway restart", run.wrong, len(run.history), [
        f"{sorted(held.values())} blocks held, replayed {learnt_s:.1f} s after the gateway was up"])
    assert min(held.values()) > 20
    assert not run.wrong
