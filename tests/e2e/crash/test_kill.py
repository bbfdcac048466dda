"""kill -9 at any moment loses nothing that was acknowledged and leaves nothing half done.

SLUICE_CRASH_KILLS (25) kills in a write load; SLUICE_CRASH_SEED repeats a run as far as timing lets.
"""

import os
import random
import shutil
import sqlite3
import subprocess
import threading
import time

import pytest
from gateway import API, Gateway, free_port, rule
from harness import VECTORS, binary, exchange
from load import LB, Model, Writer, check_file

KILLS = int(os.environ.get("SLUICE_CRASH_KILLS", "25"))
WRITERS = 4


@pytest.fixture
def seed():
    value = int(os.environ.get("SLUICE_CRASH_SEED", random.SystemRandom().getrandbits(32)))
    print(f"SLUICE_CRASH_SEED={value}")
    return value


def has_patch(gw):
    key = "externalipaddress/127.0.0.1/port/1/protocol/tcp"
    return exchange(gw.api, "PATCH", f"{LB}/{key}", {}).status not in (405, 501)


def entries(gw):
    return gw.rules(), gw.get("/config/metrics").json()["prometheus"]


def run_until_kill(gw, model, chance):
    """Writers until so many changes are acknowledged, a moment more, then the kill."""
    writers = [Writer(model, gw.api, w, chance.getrandbits(32)) for w in range(WRITERS)]
    enough = model.acknowledged + chance.randint(0, 40)
    for writer in writers:
        writer.start()
    while model.acknowledged < enough and any(w.is_alive() for w in writers):
        time.sleep(0.0005)
    # So that the signal falls anywhere into a change: its checks, its log record, its sync, its answer.
    time.sleep(chance.random() * 0.01)
    gw.child.kill()
    for writer in writers:
        writer.stopping = True
        writer.join(20)
        assert not writer.is_alive()
    gw.kill()
    for writer in writers:
        if writer.failure is not None:
            raise writer.failure


def test_every_acknowledged_change_and_no_other(tmp_path, seed):
    chance = random.Random(seed)
    model = Model(WRITERS, seed)
    gw = Gateway(tmp_path)
    model.has_patch = has_patch(gw)
    try:
        for _ in range(KILLS):
            run_until_kill(gw, model, chance)
            rules = check_file(tmp_path / "sluice.db", tmp_path / "scratch")
            gw.start()
            found, metrics = entries(gw)
            assert len(found) == rules
            model.check(found, metrics)
            assert gw.get("/status/ready").json()["boot"]["quarantine_path"] == ""
    finally:
        gw.stop()
    assert model.acknowledged > KILLS
    print(f"{KILLS} kills: {model.acknowledged} changes acknowledged, {model.resolved} of those in "
          f"flight were made, {len(model.ids)} rule numbers and {len(model.endpoints)} endpoint ids "
          "seen")


def write_released(path, version):
    sql = (VECTORS / "state" / f"schema_{version}.sql").read_text()
    db = sqlite3.connect(path)
    db.executescript(sql)
    db.close()


def test_a_kill_in_a_migration_leaves_the_old_schema_or_the_new(tmp_path, seed):
    chance = random.Random(seed)
    path = tmp_path / "sluice.db"
    # How long a start takes until it is migrated, so that the kills fall around that moment.
    for _ in range(max(8, KILLS // 5)):
        for tail in ("", "-wal", "-shm"):
            (tmp_path / f"sluice.db{tail}").unlink(missing_ok=True)
        write_released(path, 1)
        child = subprocess.Popen(
            [binary("sluiced"), "--api-listen", f"127.0.0.1:{free_port()}", "--state", str(path),
             "--workers", "1"], stderr=subprocess.DEVNULL)
        # The log appears when the database is opened; the migration is a few milliseconds later.
        limit = time.monotonic() + 10
        while not (tmp_path / "sluice.db-wal").exists() and time.monotonic() < limit:
            assert child.poll() is None
        time.sleep(chance.random() * 0.01)
        child.kill()
        child.wait()
        with Gateway(tmp_path) as gw:
            rules = gw.rules()
            assert [(r["number"], r["id"], r["generation"]) for r in rules] == \
                [(1, "chat", 2), (3, "b0b2a8ce-3c1b-4a0e-9f4e-6e6a1d3a7c55", 1)]
            assert [(e["id"], e["ep_idx"]) for r in rules for e in r["endpoints"]] == [(2, 1), (4, 0)]
            assert gw.get("/config/metrics").json() == {"prometheus": False}
            assert gw.get("/status/ready").json()["boot"]["quarantine_path"] == ""
            gw.kill()
            gw.start()


def ask_in_background(gw, *request):
    """The reply, or None when the gateway was gone first."""
    out = []

    def ask():
        try:
            out.append(exchange(gw.api, *request))
        except OSError:
            out.append(None)
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread, out


def test_a_kill_in_a_restore_leaves_all_of_it_or_nothing(tmp_path, seed):
    chance = random.Random(seed)
    with Gateway(tmp_path) as gw:
        vip = gw.vip()
        bodies = [rule(vip, [f"127.0.9.{i % 8 + 1}:8000"], model_name=f"m{i}") for i in range(40)]
        assert exchange(gw.api, "POST", f"{API}/config/import", {"rules": bodies}).status == 200
        snapshot = gw.get("/config/snapshot").json()
        whole = identities(gw)
        made = 0
        for _ in range(max(8, KILLS // 5)):
            assert gw.delete("/config/loadbalancer/all").status == 200
            began = time.monotonic()
            thread, replies = ask_in_background(gw, "POST", f"{API}/config/restore",
                                                {**snapshot, "commit": True})
            time.sleep(chance.random() * 0.06)
            took = time.monotonic() - began
            gw.kill()
            thread.join(20)
            check_file(tmp_path / "sluice.db", tmp_path / "scratch")
            gw.start()
            found = identities(gw)
            assert found in ([], whole), f"killed after {took:.3f} s"
            if replies[0] is not None and replies[0].status == 200:
                assert found == whole
            made += found == whole
        print(f"{made} restores were made before the kill")


def identities(gw):
    return [(r["number"], r["id"], [(e["id"], e["ep_idx"]) for e in r["endpoints"]])
            for r in gw.rules()]


def test_a_kill_in_a_backup_leaves_nothing_behind(tmp_path, seed):
    chance = random.Random(seed)
    store = tmp_path / "store"
    store.mkdir()
    flags = ["--state", str(store / "s.db")]
    with Gateway(tmp_path, flags=flags) as gw:
        body = rule(gw.vip(), ["127.0.9.1:8000"], annotations={f"a{i}": "x" * 4000 for i in range(5)})
        gw.create(body)
        for _ in range(max(6, KILLS // 8)):
            thread, replies = ask_in_background(gw, "GET", f"{API}/config/backup")
            time.sleep(chance.random() * 0.02)
            gw.kill()
            thread.join(20)
            assert {p.name for p in store.iterdir()} <= {"s.db", "s.db-wal", "s.db-shm", "s.db.lock"}
            if replies[0] is not None:
                (tmp_path / "copy.db").write_bytes(replies[0].body)
                db = sqlite3.connect(tmp_path / "copy.db")
                assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                assert db.execute("SELECT count(*) FROM rule").fetchall() == [(1,)]
                db.close()
            gw.start()
            assert len(gw.rules()) == 1
    shutil.rmtree(store)
