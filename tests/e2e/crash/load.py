"""A write load over REST whose every acknowledgement is remembered, and what must hold after a kill.

A writer owns its rules (one listener, a model name each) and changes one at a time. Model.check()
compares a restarted gateway with what was acknowledged: of a change in flight when the kill came,
before and after are both right; everything else must be exactly there, and nothing besides.
"""

import json
import random
import shutil
import sqlite3
import threading
import urllib.parse

from gateway import API, free_port
from harness import exchange

LB = f"{API}/config/loadbalancer"
RULES_A_WRITER = 5
HOSTS = [f"127.0.9.{i}" for i in range(1, 9)]


def body_of(key, name, endpoints):
    ip, port, model = key
    return {"serviceArguments": {"externalIP": ip, "port": port, "protocol": "tcp", "mode": 4,
                                 "sel": 0, "model_name": model, "name": name},
            "endpoints": [{"endpointIP": host, "targetPort": 8000, "weight": weight}
                          for host, weight in endpoints]}


def path_of(key):
    ip, port, model = key
    return (f"{LB}/externalipaddress/{ip}/port/{port}/protocol/tcp"
            f"?model_name={urllib.parse.quote(model)}")


def state_of(entry):
    return (entry["serviceArguments"]["name"],
            tuple(sorted((e["endpointIP"], e["weight"]) for e in entry["endpoints"])))


def key_of(entry):
    s = entry["serviceArguments"]
    return (s["externalIP"], s["port"], s["model_name"])


def ask(api, method, path, body=None):
    """The reply; OSError when the gateway was gone before it was whole."""
    reply = exchange(api, method, path, body)
    if reply is None or not reply.is_complete:
        raise OSError("closed without an answer")
    return reply


class Model:
    """What was acknowledged, and every identity that was ever seen."""

    def __init__(self, writers, seed):
        self.lock = threading.Lock()
        self.random = random.Random(seed)
        self.rules = {}       # key -> state acknowledged
        self.in_flight = {}   # key -> the state it would have; None = deleted
        self.metrics = {True}  # what the switch may be
        self.number_of = {}   # key -> number, of rules that exist
        self.ids = {}         # number -> id, for ever
        self.endpoints = {}   # endpoint id -> (number, host), for ever
        self.indexes = {}     # (number, ep_idx) -> host, for ever
        self.acknowledged = 0
        self.resolved = 0     # changes in flight that were found made
        self.has_patch = False
        self.keys = [[("127.0.9.100", free_port(), f"m{w}-{i}") for i in range(RULES_A_WRITER)]
                     for w in range(writers)]

    def learn(self, key, number, rule_id):
        """The identity of a rule that exists."""
        assert self.ids.setdefault(number, rule_id) == rule_id, f"number {number} was given twice"
        known = self.number_of.get(key)
        if known is None:
            assert number not in self.number_of.values(), f"number {number} is another rule's"
            self.number_of[key] = number
        else:
            assert known == number, f"the rule {key} changed its number"

    def check(self, entries, metrics):
        found = {key_of(e): e for e in entries}
        assert len(found) == len(entries)
        for key in set(self.rules) | set(self.in_flight) | set(found):
            have = state_of(found[key]) if key in found else None
            allowed = [self.rules.get(key)]
            if key in self.in_flight:
                allowed.append(self.in_flight[key])
            assert have in allowed, f"{key}: found {have}, acknowledged or in flight: {allowed}"
            if have != self.rules.get(key):
                self.resolved += 1
            if have is None:
                self.rules.pop(key, None)
                self.number_of.pop(key, None)
            else:
                if self.rules.get(key) is None:
                    assert found[key]["number"] not in self.ids, "a number was given again"
                self.rules[key] = have
                self.learn(key, found[key]["number"], found[key]["id"])
        for entry in entries:
            for e in entry["endpoints"]:
                place = (entry["number"], e["endpointIP"])
                assert self.endpoints.setdefault(e["id"], place) == place, "endpoint id reused"
                at = (entry["number"], e["ep_idx"])
                assert self.indexes.setdefault(at, e["endpointIP"]) == e["endpointIP"], \
                    f"index {at} reused"
        assert metrics in self.metrics
        self.metrics = {metrics}
        self.in_flight.clear()


class Writer(threading.Thread):
    """Changes its rules until the gateway is gone."""

    def __init__(self, model, api, number, seed):
        super().__init__(daemon=True)
        self.model, self.api, self.number = model, api, number
        self.random = random.Random(seed)
        self.failure = None
        self.stopping = False

    def run(self):
        try:
            while not self.stopping:
                self.step()
        except OSError:
            pass  # the kill; what was asked for stays in flight
        except Exception as e:  # pylint: disable=broad-except
            self.failure = e

    def step(self):
        if self.number == 0 and self.random.random() < 0.1:
            self.switch_metrics()
            return
        key = self.random.choice(self.model.keys[self.number])
        before = self.model.rules.get(key)
        if before is not None and self.random.random() < 0.35:
            self.change(key, None, "DELETE", path_of(key), None)
            return
        name = f"n{self.random.getrandbits(48):x}"
        endpoints = [(host, self.random.randint(1, 9))
                     for host in self.random.sample(HOSTS, self.random.randint(1, 4))]
        if before is not None and self.model.has_patch and self.random.random() < 0.5:
            self.change(key, (name, before[1]), "PATCH", path_of(key),
                        {"serviceArguments": {"name": name}})
            return
        self.change(key, (name, tuple(sorted(endpoints))), "POST", LB,
                    body_of(key, name, endpoints))

    def change(self, key, after, method, path, body):
        model = self.model
        with model.lock:
            model.in_flight[key] = after
        reply = ask(self.api, method, path, body)
        assert reply.status == 200, f"{method} {path}: {reply.status} {reply.body}"
        said = reply.json()
        with model.lock:
            del model.in_flight[key]
            model.acknowledged += 1
            if after is None:
                del model.rules[key]
                del model.number_of[key]
                return
            if method == "POST":
                if key not in model.rules:
                    assert said["number"] not in model.ids, f"number {said['number']} given again"
                model.learn(key, said["number"], said["id"])
            model.rules[key] = after

    def switch_metrics(self):
        model = self.model
        (now,) = model.metrics
        model.metrics = {True, False}
        reply = ask(self.api, "DELETE" if now else "POST", f"{API}/config/metrics")
        assert reply.status == 200 and reply.json()["result"] == "Success", reply.body
        model.metrics = {not now}
        with model.lock:
            model.acknowledged += 1


def check_file(path, scratch):
    """What a killed gateway left, on a copy: SQLite finds no fault, and the audit trail tells of
    exactly the rules that are there."""
    scratch.mkdir(exist_ok=True)
    copy = scratch / "copy.db"
    for tail in ("", "-wal"):
        source = f"{path}{tail}"
        target = f"{copy}{tail}"
        try:
            shutil.copyfile(source, target)
        except FileNotFoundError:
            (scratch / f"copy.db{tail}").unlink(missing_ok=True)
    (scratch / "copy.db-shm").unlink(missing_ok=True)
    db = sqlite3.connect(copy)
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        told = {}
        for action, subject, after in db.execute(
                "SELECT action, subject, after FROM audit ORDER BY seq"):
            if action.startswith("rule."):
                told[subject] = after
        rules = dict(db.execute("SELECT id, body FROM rule"))
        assert {k: json.loads(v) for k, v in told.items() if v} == \
            {k: json.loads(v) for k, v in rules.items()}, "the audit trail tells of other rules"
        return len(rules)
    finally:
        db.close()
