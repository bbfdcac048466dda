"""The rule body of the integration page with roles, addresses changed and nothing else."""

import pytest

from conftest import legs, pd_rule
from gateway import complete, rule, split_address
from pairs import posts, prompt, same_text


def page_body(vip, prefill, decode, **more):
    ip, port = split_address(vip)
    (p_ip, p_port), (d_ip, d_port) = split_address(prefill.address), split_address(decode.address)
    return {"serviceArguments": {
                "externalIP": ip, "port": port, "protocol": "tcp", "sel": 0, "mode": 4, "security": 0,
                "backend_protocol": "http1", "monitor": True, "probetype": "http",
                "probeport": p_port, "probereq": "/health", "probeTimeout": 5, "probeRetries": 2,
                "pd_disagg_mode": True, **more},
            "endpoints": [{"endpointIP": p_ip, "targetPort": p_port, "weight": 1, "ep_role": 1},
                          {"endpointIP": d_ip, "targetPort": d_port, "weight": 1, "ep_role": 2}]}


@pytest.mark.parametrize("more", [{}, {"kvExactMode": 1}])
def test_the_body_of_the_page_works(gateway, engines, plain, more):
    prefill, decode = engines(2)
    vip = gateway.vip()
    made = gateway.create(page_body(vip, prefill, decode, **more))
    arguments = made["serviceArguments"]
    assert arguments["pd_disagg_mode"] is True
    assert arguments.get("kvExactMode", 0) == more.get("kvExactMode", 0)
    words = prompt()
    assert same_text(complete(vip, words, request_id="page"), plain, words)
    assert [leg[0] for leg in legs(gateway, "page")] == ["prefill", "decode"]


def test_tf_a_rule_that_is_deleted_and_made_again_serves_as_before(gateway, engines, plain):
    prefill, decode = engines(2)
    vip = gateway.vip()
    ip, port = split_address(vip)
    for turn in (1, 2):
        made = gateway.create(page_body(vip, prefill, decode))
        assert sorted(e["ep_role"] for e in made["endpoints"]) == [1, 2]
        words = prompt()
        assert same_text(complete(vip, words), plain, words)
        assert len(posts(prefill)) == len(posts(decode)) == turn
        gone = gateway.delete(f"/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/tcp")
        assert gone.status == 200, gone.body
        assert gateway.rules() == []


def test_a_rule_without_pairs_beside_one_with_pairs_is_as_it_was(gateway, engines, plain):
    prefill, decode = engines(2)
    pairs, alone = gateway.vip(), gateway.vip()
    gateway.create(pd_rule(pairs, [prefill], [decode]))
    gateway.create(rule(alone, [plain.address]))
    for i in range(3):
        words = prompt()
        assert same_text(complete(pairs, words), plain, words)
        assert complete(alone, words, request_id=f"alone-{i}").status == 200
        assert [leg[0] for leg in legs(gateway, f"alone-{i}")] == ["whole"]
    assert not any(b"kv_transfer_params" in str(r["body"]).encode() for r in posts(plain))
