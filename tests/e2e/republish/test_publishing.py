"""What a gateway publishes: addresses, sequence numbers, bounds, and who may have a port."""

import socket

import zmq

from conftest import TEXT, Pair, free_range
from gateway import API, complete, rule
from harness import exchange, wait_until
from kv_events import Index, Subscriber, replay


def sources(gateway, address, **query):
    text = "".join(f"&{k}={v}" for k, v in query.items())
    return gateway.get(f"/kv_event_sources?endpoint={address}{text}")


def test_an_endpoint_is_found_as_an_engine_says_it(start_gateway, engine):
    first, second = sorted((engine(), engine()), key=lambda e: int(e.address.rsplit(":")[-1]))
    pair = Pair(start_gateway, [first.address, second.address])
    rule_ = pair.first.find(pair.first_body)
    by_idx = {e["ep_idx"]: f"{e['endpointIP']}:{e['targetPort']}" for e in rule_["endpoints"]}
    for i in (0, 1):
        reply = sources(pair.first, by_idx[i])
        assert reply.status == 200
        assert reply.json() == {"0": {
            "enable_kv_cache_events": True, "publisher": "zmq",
            "endpoint": f"tcp://127.0.0.1:{pair.port + 2 * i}",
            "replay_endpoint": f"tcp://127.0.0.1:{pair.port + 2 * i + 1}",
            "buffer_steps": 10000, "hwm": 1000, "max_queue_size": 10000, "topic": ""}}
        for key in ("id", "number"):
            assert sources(pair.first, by_idx[i], rule=rule_[key]).json() == reply.json()
    assert sources(pair.first, "127.0.0.1:1").status == 404
    assert sources(pair.first, "127.0.0.1:1").json()["code"] == "no_endpoint"
    assert sources(pair.first, by_idx[0], rule="nobody").status == 404
    assert pair.first.get("/kv_event_sources").status == 400


def test_what_is_published_is_what_the_engine_has(start_gateway, engine):
    only = engine("--num-gpu-blocks-override", 150, "--max-model-len", 1500)
    pair = Pair(start_gateway, [only.address])
    pair.first.wait_signal(pair.first_body, ("ok", "quiet"))
    pair.fill(30)
    pair.settled({only.address: only})
    def agree():
        index = Index()
        index.apply(replay(f"tcp://127.0.0.1:{pair.port + 1}"))
        return {h: n for h, n in index.copies.items() if n} == only.cache()
    wait_until(agree, 20, "the engine's blocks and copies")


def test_edits_move_addresses_and_keep_numbers(start_gateway, engine):
    stays, leaves, comes = (engine() for _ in range(3))
    pair = Pair(start_gateway, [stays.address, leaves.address])
    pair.first.wait_signal(pair.first_body, ("ok", "quiet"))
    pair.fill(6)
    numbers = {e["targetPort"]: e["ep_idx"] for e in pair.first.find(pair.first_body)["endpoints"]}
    idx = numbers[int(stays.address.rsplit(":")[-1])]
    at = f"tcp://127.0.0.1:{pair.port + 2 * idx}"
    live = Subscriber(at)
    before = replay(f"tcp://127.0.0.1:{pair.port + 2 * idx + 1}")
    changed = rule(pair.first_vip, [stays.address, comes.address], **pair.arguments,
                   kvRepublish=f"tcp://127.0.0.1:{pair.port}", name="edited")
    pair.first.create(changed)
    for i in range(6):
        assert complete(pair.first_vip, f"Edited {i}. " + TEXT).status == 200
    after = wait_until(lambda: (r := replay(f"tcp://127.0.0.1:{pair.port + 2 * idx + 1}")) and
                       len(r) > len(before) and r, 20, "more batches")
    assert [b.sequence for b in after] == list(range(len(after)))
    assert [b.payload for b in after[:len(before)]] == [b.payload for b in before]
    live.close()
    # Another address: the same numbers elsewhere.
    moved = free_range(8)
    changed["serviceArguments"]["kvRepublish"] = f"tcp://127.0.0.1:{moved}"
    pair.first.create(changed)
    again = replay(f"tcp://127.0.0.1:{moved + 2 * idx + 1}")
    assert [b.payload for b in again[:len(after)]] == [b.payload for b in after]
    with socket.socket() as free:
        wait_until(lambda: free.connect_ex(("127.0.0.1", pair.port + 2 * idx)) != 0, 10, "let go")
    pair.first.delete(f"/config/loadbalancer/externalipaddress/{pair.first_vip.split(':')[0]}/port/"
                      f"{pair.first_vip.split(':')[1]}/protocol/tcp")
    with socket.socket() as free:
        wait_until(lambda: free.connect_ex(("127.0.0.1", moved + 2 * idx)) != 0, 10, "all let go")


def test_a_taken_port_refuses_the_rule(start_gateway, engine):
    only = engine()
    gateway = start_gateway("only")
    vip, port = gateway.vip(), free_range(2)
    body = rule(vip, [only.address], kvExactMode=3, kvRepublish=f"tcp://127.0.0.1:{port}")
    with socket.socket() as other:
        other.bind(("127.0.0.1", port + 1))
        other.listen()
        reply = exchange(gateway.api, "POST", f"{API}/config/loadbalancer", body)
        assert reply.status == 409 and reply.json()["code"] == "republish_unavailable"
        assert reply.json()["field"] == "kvRepublish"
        assert gateway.rules() == []
    # Nothing of the try is left: neither the publisher's port nor the listener.
    wait_until(lambda: exchange(gateway.api, "POST", f"{API}/config/loadbalancer", body).status == 200,
               10, "the rule")
    far = rule(gateway.vip(), [only.address], kvExactMode=3, kvRepublish="tcp://127.0.0.1:65535")
    reply = exchange(gateway.api, "POST", f"{API}/config/loadbalancer", far)
    assert reply.status == 400 and reply.json()["code"] == "kv_republish_range"


def test_at_a_start_the_rule_stays_and_the_port_is_tried_again(start_gateway, engine):
    only = engine()
    gateway = start_gateway("only")
    vip, port = gateway.vip(), free_range(2)
    body = rule(vip, [only.address], kvExactMode=3, kvRepublish=f"tcp://127.0.0.1:{port}")
    gateway.create(body)
    gateway.stop()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        gateway.start()
        assert complete(vip, TEXT).status == 200
        ready = gateway.get("/status/ready")
        assert ready.status == 200
        assert any("republish_unavailable" in r for r in ready.json()["reasons"])
        assert sources(gateway, only.address).json() == {}
        codes = [w["code"] for w in gateway.find(body)["warnings"]]
        assert "republish_unavailable" in codes
    wait_until(lambda: sources(gateway, only.address).json() != {}, 20, "bound at last")
    assert not any("republish" in r for r in gateway.get("/status/ready").json()["reasons"])


def test_off_loopback_is_warned_of(start_gateway, engine):
    only = engine()
    gateway = start_gateway("only")
    port = free_range(2)
    body = rule(gateway.vip(), [only.address], kvExactMode=3, kvRepublish=f"tcp://*:{port}")
    made = gateway.create(body)
    assert "kv_republish_open" in [w["code"] for w in made["warnings"]]
    assert sources(gateway, only.address).json()["0"]["endpoint"] == f"tcp://*:{port}"


def resident_mib(gateway):
    with open(f"/proc/{gateway.child.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024


def test_who_does_not_read_costs_little_and_disturbs_nobody(start_gateway, engine):
    only = engine()
    engines = {only.address: only}
    pair = Pair(start_gateway, [only.address])
    pair.join()
    pair.second.wait_signal(pair.second_body, ("ok", "quiet"))
    context = zmq.Context()
    slow = []
    for _ in range(4):
        s = context.socket(zmq.SUB)
        s.setsockopt(zmq.RCVHWM, 1)
        s.setsockopt(zmq.RCVBUF, 4096)
        s.setsockopt(zmq.LINGER, 0)
        s.setsockopt(zmq.SUBSCRIBE, b"")
        s.connect(f"tcp://127.0.0.1:{pair.port}")
        slow.append(s)
    # A replay that nobody reads waits, too.
    asker = context.socket(zmq.DEALER)
    asker.setsockopt(zmq.RCVHWM, 1)
    asker.setsockopt(zmq.LINGER, 0)
    asker.connect(f"tcp://127.0.0.1:{pair.port + 1}")
    before = resident_mib(pair.first)
    for turn in range(4):
        pair.fill(25, f"Turn {turn}")
        asker.send_multipart([b"", (0).to_bytes(8, "big")])
    pair.settled(engines, 60)
    assert pair.first.metric("sluice_kv_republish_buffer_bytes") <= 64 << 20
    assert resident_mib(pair.first) - before < 100
    # Topics that nobody publishes are no memory leak: all have to connect anew, and readers do.
    flood = context.socket(zmq.SUB)
    flood.setsockopt(zmq.LINGER, 0)
    flood.connect(f"tcp://127.0.0.1:{pair.port}")
    for i in range(400):
        flood.setsockopt(zmq.SUBSCRIBE, f"topic-{i}".encode())
    wait_until(lambda: "too many topics" in pair.first.log(), 20, "the flood is seen")
    flood.close()
    pair.fill(5, "After")
    pair.settled(engines, 60)
    for s in (*slow, asker):
        s.close()
    context.term()
