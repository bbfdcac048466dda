"""What is read while it changes."""

import threading

from gateway import API, Gateway, free_port, rule
from harness import exchange


def test_rules_are_listed_whole_while_others_change_them(tmp_path):
    with Gateway(str(tmp_path)) as gw:
        bodies = [rule(f"127.0.0.1:{free_port()}", ["127.0.0.1:9"], name=f"r-{n}") for n in range(40)]
        for body in bodies:
            gw.create(body)
        edits_end = threading.Event()
        faults = []

        def read():
            try:
                while not edits_end.is_set():
                    for path in ("/config/loadbalancer/all", "/diagnostics", "/status/flows?limit=9&rule=edit-7"):
                        reply = exchange(gw.api, "GET", API + path)
                        assert reply is not None and reply.status == 200, path
                        if path.endswith("/all"):
                            assert len(reply.json()["lbAttr"]) == len(bodies)
            except Exception as e:  # noqa: BLE001, told below
                faults.append(e)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        try:
            for n in range(300):
                body = bodies[n % len(bodies)]
                body["serviceArguments"]["name"] = f"edit-{n}"
                reply = exchange(gw.api, "POST", f"{API}/config/loadbalancer", body)
                assert reply is not None and reply.status == 200
        finally:
            edits_end.set()
            for reader in readers:
                reader.join(30)
        assert not faults, faults[0]
        assert gw.child.poll() is None
