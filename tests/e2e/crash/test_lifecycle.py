"""Snapshot, export, backup and audit against the running gateway, and what it does with a bad file."""

import json
import os
import sqlite3
import subprocess

from gateway import API, Gateway, free_port, rule
from harness import binary, exchange
from test_kill import identities

CONFIG = f"{API}/config"


def ask(gw, method, path, body=None, headers=()):
    return exchange(gw.api, method, CONFIG + path, body, headers)


def bodies_of(gw):
    return [(r["serviceArguments"], [(e["endpointIP"], e["weight"]) for e in r["endpoints"]])
            for r in gw.rules()]


def test_a_snapshot_brings_everything_back_on_this_gateway_and_on_another(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with Gateway(tmp_path / "a") as gw, Gateway(tmp_path / "b") as other:
        vip = gw.vip()
        for model in ("x", "y"):
            gw.create(rule(vip, ["127.0.9.1:1", "127.0.9.2:1"], model_name=model))
        assert ask(gw, "DELETE", "/metrics").status == 200
        before, whole = identities(gw), bodies_of(gw)
        snapshot = ask(gw, "GET", "/snapshot").json()

        gw.create(rule(vip, ["127.0.9.3:1"], model_name="x"))
        gw.create(rule(gw.vip(), ["127.0.9.3:1"], model_name="z"))
        assert ask(gw, "POST", "/metrics").status == 200
        dry = ask(gw, "POST", "/restore", snapshot).json()
        assert (dry["committed"], dry["created"], dry["replaced"], dry["deleted"],
                dry["unchanged"], dry["settings"]) == (False, 0, 1, 1, 1, ["prometheus"])
        assert len(gw.rules()) == 3
        done = ask(gw, "POST", "/restore", {**snapshot, "commit": True})
        assert done.status == 200 and done.json()["committed"]
        assert identities(gw) == before and bodies_of(gw) == whole
        assert ask(gw, "GET", "/metrics").json() == {"prometheus": False}
        gw.kill()
        gw.start()
        assert identities(gw) == before and bodies_of(gw) == whole

        # The other gateway has no number yet, so it takes these. The listener is the first one's.
        refused = ask(other, "POST", "/restore", {**snapshot, "commit": True})
        assert refused.status == 409 and refused.json()["code"] == "listener_unavailable"
        assert other.rules() == []
        assert gw.delete("/config/loadbalancer/all").status == 200
        assert ask(other, "POST", "/restore", {**snapshot, "commit": True}).status == 200
        assert identities(other) == before and bodies_of(other) == whole

        spoiled = json.loads(json.dumps(snapshot).replace("127.0.9.1", "127.0.9.4"))
        assert ask(gw, "POST", "/restore", spoiled).json()["code"] == "digest_mismatch"


def test_an_export_of_two_thousand_rules_is_imported_at_once(tmp_path):
    with Gateway(tmp_path) as gw:
        vip = gw.vip()
        bodies = [rule(vip, ["127.0.9.1:1"], model_name=f"m{i}", annotations={"note": "x" * 400})
                  for i in range(2000)]
        done = exchange(gw.api, "POST", f"{CONFIG}/import", {"rules": bodies}, limit_s=60)
        assert done.status == 200 and done.json()["created"] == 2000
        exported = exchange(gw.api, "GET", f"{CONFIG}/export", limit_s=60)
        assert len(exported.body) > 1 << 20  # more than a body of other routes may have
        again = exchange(gw.api, "POST", f"{CONFIG}/import?mode=replace", exported.json(), limit_s=60)
        assert again.json()["unchanged"] == 2000 and again.json()["generation"] == 1
        too_many = {"rules": [rule(vip, ["127.0.9.1:1"], model_name=f"n{i}") for i in range(49)]}
        assert ask(gw, "POST", "/import", too_many).json()["code"] == "rule_hwm"


def test_a_backup_is_put_in_place_of_the_file(tmp_path):
    with Gateway(tmp_path) as gw:
        gw.create(rule(gw.vip(), ["127.0.9.1:1"], name="kept"))
        before = identities(gw)
        backup = ask(gw, "GET", "/backup")
        assert backup.status == 200 and backup.body.startswith(b"SQLite format 3\0")
        assert gw.delete("/config/loadbalancer/all").status == 200
        assert ask(gw, "POST", "/persist").json()["generation"] == 2
        gw.stop()
        for tail in ("-wal", "-shm"):
            (tmp_path / f"sluice.db{tail}").unlink(missing_ok=True)
        (tmp_path / "sluice.db").write_bytes(backup.body)
        gw.start()
        assert identities(gw) == before


def test_only_an_admin_reads_what_is_stored(tmp_path):
    tokens = tmp_path / "tokens"
    with open(os.open(tokens, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
        f.write("ann admin admin-token\nbob viewer viewer-token\n")
    ann = [("Authorization", "Bearer admin-token")]
    bob = [("Authorization", "Bearer viewer-token")]
    with Gateway(tmp_path, flags=["--api-token-file", str(tokens)]) as gw:
        assert ask(gw, "POST", "/loadbalancer", rule(gw.vip(), ["127.0.9.1:1"], name="r"),
                   ann).status == 200
        for path in ("/audit", "/snapshot", "/export", "/backup"):
            assert ask(gw, "GET", path).status == 401
            assert ask(gw, "GET", path, headers=bob).status == 403
            assert ask(gw, "GET", path, headers=ann).status == 200
        for path in ("/restore", "/import", "/persist"):
            assert ask(gw, "POST", path, {}, bob).status == 403
        row = ask(gw, "GET", "/audit?limit=1", headers=ann).json()["audit"][0]
        assert (row["who"], row["from"], row["action"]) == ("ann", "127.0.0.1", "rule.create")
        assert row["before"] is None and row["after"]["serviceArguments"]["name"] == "r"
        older = ask(gw, "GET", f"/audit?before={row['seq']}", headers=ann).json()
        assert older == {"audit": []}


def test_a_busy_database_is_503_and_nothing_is_half_done(tmp_path):
    with Gateway(tmp_path) as gw:
        gw.create(rule(gw.vip(), ["127.0.9.1:1"], name="kept"))
        other = sqlite3.connect(tmp_path / "sluice.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        body = rule(gw.vip(), ["127.0.9.1:1"], name="new")
        busy = exchange(gw.api, "POST", f"{CONFIG}/loadbalancer", body, limit_s=30)
        assert busy.status == 503 and busy.json()["code"] == "storage_busy"
        assert [r["serviceArguments"]["name"] for r in gw.rules()] == ["kept"]
        other.execute("ROLLBACK")
        other.close()
        gw.create(body)


def start_refused(folder):
    done = subprocess.run(
        [binary("sluiced"), "--api-listen", f"127.0.0.1:{free_port()}", "--state",
         str(folder / "sluice.db")], capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stderr


def test_a_file_that_is_not_ours_is_left_as_it_is(tmp_path):
    path = tmp_path / "sluice.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs (x)")
    db.commit()
    db.close()
    before = path.read_bytes()
    code, said = start_refused(tmp_path)
    assert code == 1 and "another program" in said
    assert path.read_bytes() == before
    path.unlink()
    path.mkdir()
    code, said = start_refused(tmp_path)
    assert code == 1 and "not a regular file" in said


def test_a_damaged_file_is_set_aside_and_readiness_says_where(tmp_path):
    spoiled = b"no database at all, but long enough to be taken for one" * 100
    (tmp_path / "sluice.db").write_bytes(spoiled)
    with Gateway(tmp_path) as gw:
        boot = gw.get("/status/ready").json()["boot"]
        aside = boot["quarantine_path"]
        assert aside.startswith(str(tmp_path / "sluice.db.damaged-")) and boot["degraded"]
        with open(aside, "rb") as f:
            assert f.read() == spoiled
        gw.create(rule(gw.vip(), ["127.0.9.1:1"]))
