"""Edits while a request is under way, and where it is sent when its endpoint fails."""

import pytest

from conftest import edited, row
from gateway import rule, split_address
from harness import RawClient, request_bytes, wait_until


def posts(engine):
    return sum(1 for r in engine.requests() if r["method"] == "POST")


def take_out(gateway, vip, body, first, second):
    gateway.create(edited(body, [row(first.address)]))


def drain(gateway, vip, body, first, second):
    gateway.create(edited(body, [row(first.address), row(second.address, 0, backup=True)]))


def take_the_rule_away(gateway, vip, body, first, second):
    ip, port = split_address(vip)
    path = f"/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/tcp"
    assert gateway.delete(path).status == 200


def change_something_else(gateway, vip, body, first, second):
    gateway.create(edited(body, name="other"))


@pytest.mark.parametrize("edit, status", [(take_out, 502), (drain, 502), (take_the_rule_away, 502),
                                          (change_something_else, 200)])
def test_a_request_is_not_sent_anew_to_what_an_edit_took_out_meanwhile(gateway, engines, edit, status):
    first, second = engines(2)
    vip = gateway.vip()
    body = rule(vip, [first.address, (second.address, {"backup": True})],
                retry={"after_dispatch": True})
    gateway.create(body)
    first.arm("hang")
    with RawClient(vip, limit_s=60) as client:
        client.send(request_bytes("POST", "/v1/completions",
                                  {"model": "tiny", "prompt": "x", "max_tokens": 1},
                                  [("X-Request-Id", "moved")]))
        wait_until(lambda: posts(first) == 1, 10, "the request is with the first")
        edit(gateway, vip, body, first, second)
        first.kill()
        reply = client.read_reply()
    assert reply.status == status
    if status == 502:
        assert reply.json()["error"]["code"] == "backend_unreachable"
    assert posts(second) == (1 if status == 200 else 0)
    legs = [leg["endpoint"] for leg in gateway.receipt("moved")["legs"]]
    assert legs == [first.address, second.address][:len(legs)]
    assert len(legs) == (2 if status == 200 else 1)
