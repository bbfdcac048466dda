"""No space left: 507, nothing half done, and the next change works when there is room again."""

import resource
import shutil
import subprocess

import pytest
from gateway import API, Gateway, rule
from harness import exchange

LB = f"{API}/config/loadbalancer"


def big_rule(vip, name):
    return rule(vip, ["127.0.9.1:8000"], name=name, model_name=name,
                annotations={f"a{i}": "x" * 4000 for i in range(8)})


def names(gw):
    return [r["serviceArguments"]["name"] for r in gw.rules()]


def fill(gw, vip):
    """Rules until the disk is full: the names of those that were acknowledged."""
    kept = []
    for i in range(400):
        reply = exchange(gw.api, "POST", LB, big_rule(vip, f"r{i}"))
        if reply.status == 200:
            kept.append(f"r{i}")
            continue
        assert reply.status == 507, reply.body
        assert reply.json()["code"] == "storage_full"
        return kept
    raise AssertionError("the disk never was full")


def check_refusals(gw, kept):
    """Every kind of change is refused and changes nothing."""
    before = exchange(gw.api, "GET", f"{API}/config/export").json()["rules"]
    snapshot = gw.get("/config/snapshot").json()
    bodies = [big_rule(gw.vip(), f"x{i}") for i in range(3)]
    assert exchange(gw.api, "POST", f"{API}/config/import", {"rules": bodies}).status == 507
    edited = big_rule(gw.vip(), "edited")
    assert exchange(gw.api, "POST", LB, edited).status == 507
    assert exchange(gw.api, "POST", f"{API}/config/restore",
                    {**snapshot, "commit": False}).status == 200
    assert names(gw) == kept
    assert exchange(gw.api, "GET", f"{API}/config/export").json()["rules"] == before
    assert gw.get("/config/backup").status == 200


def check_after(gw, kept):
    """With room again the next change works, and all of it survives a kill."""
    assert exchange(gw.api, "POST", LB, big_rule(gw.vip(), "after")).status == 200
    assert names(gw) == [*kept, "after"]
    gw.kill()
    gw.start()
    assert names(gw) == [*kept, "after"]
    assert gw.get("/status/ready").json()["boot"]["quarantine_path"] == ""


def test_a_limit_of_file_sizes(tmp_path):
    with Gateway(tmp_path) as gw:
        vip = gw.vip()
        unlimited = resource.prlimit(gw.child.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(gw.child.pid, resource.RLIMIT_FSIZE, (600_000, unlimited[1]))
        kept = fill(gw, vip)
        assert len(kept) > 3
        check_refusals(gw, kept)
        resource.prlimit(gw.child.pid, resource.RLIMIT_FSIZE, unlimited)
        check_after(gw, kept)


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1536k", "sluice-test", folder],
                             check=False, capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("no right to mount")
    yield folder
    subprocess.run(["umount", "-l", folder], check=False)
    shutil.rmtree(folder, ignore_errors=True)


def test_a_file_system_without_space(tmp_path, small_disk):
    with Gateway(tmp_path, flags=["--state", str(small_disk / "s.db")]) as gw:
        vip = gw.vip()
        filler = small_disk / "filler"
        with open(filler, "wb") as f:
            f.write(b"x" * 700_000)
        kept = fill(gw, vip)
        check_refusals(gw, kept)
        filler.unlink()
        check_after(gw, kept)
