"""An engine that dies and comes back empty is not believed to hold what its forerunner held."""
import time

from harness import wait_until
from stand import report
from workload import Workload


def run(stand, asks, history, wrong, count):
    for _ in range(count):
        ask = next(asks)
        done, problems, receipt = stand.probe(ask)
        if problems:
            wrong.append((ask, problems, receipt))
        history.append(done)
        if ask.conversation:
            ask.conversation.answered(done.text)


def test_no_prediction_is_wrong_before_during_and_after_a_restart(stand):
    work, history, wrong = Workload(21, stand.vocabulary), [], []
    asks = work.asks(history)
    run(stand, asks, history, wrong, 30)

    engine = stand.engines[0]
    held = stand.shadows[engine.address].held
    assert held > 50
    shadow = stand.shadows.pop(engine.address)
    engine.kill()
    # While it is away, the other answers everything: `shadows` without it means "not compared".
    down = []
    for _ in range(10):
        ask = next(asks)
        answer, name = stand.send(stand.vip, ask.path, ask.body)
        receipt = stand.receipt(name)
        if answer.status != 200 or receipt["legs"][-1]["endpoint"] == engine.address:
            down.append((ask.kind, answer.status, receipt["legs"]))
        elif receipt["tokens"]["predicted_cached"] != answer.cached:
            wrong.append((ask, [f"while one is down: reported {answer.cached}"], receipt))
        other = stand.engines[1].address
        stand.settle(other, answer.prompt + answer.output, ask.salt)
        if ask.conversation:
            ask.conversation.answered(answer.text)
    assert not down

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
    run(stand, asks, history, wrong, 80)
    filled = stand.endpoints()[engine.address]["kv"]["blocks"]
    report("restart", wrong, len(history) + 10, [
        f"{held} blocks held before the kill, dropped {dropped_s:.1f} s after the new process was "
        f"ready, {filled} blocks at the end"])
    assert filled > 50
    assert not wrong
