"""Requests that follow earlier ones: the pair of a conversation, the prefill that saw a prompt's beginning."""

import re

import pytest

from conftest import legs, pd_rule
from gateway import chat, complete
from harness import RawClient, exchange, wait_until
from pairs import ask, header, posts, prompt


def turn(vip, name, headers=(), **more):
    """One request of a conversation; where its legs ran, and by which tier."""
    reply = exchange(vip, "POST", "/v1/completions",
                     {"model": "tiny", "prompt": prompt(), "max_tokens": 2, **more},
                     [("X-Request-Id", name), *headers], limit_s=60)
    assert reply.status == 200, reply.body


def tiers(gateway, name):
    return [leg["tier"] for leg in gateway.receipt(name)["legs"]]


def where(gateway, name):
    return tuple(leg[1] for leg in legs(gateway, name))


def reasons(gateway, name, tier):
    return {m["reason"] for m in gateway.receipt(name)["misses"] if m["tier"] == tier}


# --- sessions

@pytest.mark.parametrize("name", ["X-Conversation-ID", "X-Session-ID"])
def test_tj_conversations_keep_their_pairs_while_others_come_between(gateway, pool, name):
    vip, prefills, decodes, _ = pool(2, 2)
    pairs = {}
    for i in range(5):
        for talk in ("one", "two", "three"):
            turn(vip, f"{talk}-{i}", [(name, talk)])
            pairs.setdefault(talk, set()).add(where(gateway, f"{talk}-{i}"))
            turn(vip, f"{talk}-{i}-stranger")
            assert "session" not in tiers(gateway, f"{talk}-{i}-stranger")
    assert all(len(seen) == 1 for seen in pairs.values()), pairs
    assert tiers(gateway, "two-4") == ["session", "session"]
    assert gateway.metric("loxilb_ai_pd_session_hits_total", model="tiny") == 12
    assert gateway.metric("loxilb_ai_pd_tier_selected_total", tier="session") == 12
    assert gateway.metric("loxilb_pd_sessions_active") == 3


def test_tj_a_conversation_is_more_than_its_user(gateway, pool):
    vip, _, _, _ = pool(2, 2)
    turn(vip, "a", [("X-Conversation-ID", "talk")], user="anna")
    turn(vip, "b", user="anna")
    assert tiers(gateway, "b") == ["selector", "selector"]
    turn(vip, "c", [("X-Conversation-ID", "talk")], user="bert")
    assert tiers(gateway, "c") == ["session", "session"]
    assert where(gateway, "c") == where(gateway, "a")


def test_tj_a_session_ends_when_its_time_has_passed(gateway, engines):
    prefills, decodes = engines(2), engines(2)
    vip = gateway.vip()
    made = gateway.create(pd_rule(vip, prefills, decodes, pd_session_ttl_sec=1))
    turn(vip, "first", user="anna")

    def would():
        told = gateway.explain({"rule": made["number"], "body": {
            "model": "tiny", "prompt": "x", "user": "anna"}}).json()
        return [leg["tier"] for leg in told["legs"]]

    # Looking at it is no use of it.
    wait_until(lambda: would() == ["selector", "selector"], 20, "it has ended")
    turn(vip, "then", user="anna")
    assert tiers(gateway, "then") == ["selector", "selector"]
    assert "new_session" in reasons(gateway, "then", "session")
    assert gateway.metric("loxilb_ai_pd_session_hits_total") == 0
    turn(vip, "soon", user="anna")
    assert gateway.metric("loxilb_pd_sessions_active") == 1


@pytest.mark.parametrize("leg", [0, 1])
def test_tj_a_session_whose_endpoint_is_out_goes_on_with_another_pair(gateway, pool, leg):
    vip, prefills, decodes, _ = pool(2, 2, breaker={"failures": 1, "open_ms": 3_600_000})
    turn(vip, "before", user="anna")
    lost = where(gateway, "before")[leg]
    next(e for e in [*prefills, *decodes] if e.address == lost).kill()
    for i in range(3):
        turn(vip, f"after-{i}", user="anna")
    last = where(gateway, "after-2")
    assert lost not in last and last == where(gateway, "after-1")
    assert tiers(gateway, "after-2") == ["session", "session"]
    assert gateway.metric("loxilb_pd_sessions_active") == 1


# --- beginnings of prompts

def test_tk_the_whole_prompt_counts_and_not_only_its_beginning(gateway, pool):
    vip, prefills, _, _ = pool(2, 1, pd_cache_aware_mode=True, pd_cache_threshold=60)
    common = prompt("every one of them begins with the same long words ") * 4
    assert len(common) > 1024
    tails = {name: prompt(name) * 8 for name in ("law", "tax")}
    for name, tail in tails.items():
        complete(vip, common + tail, request_id=name)
    homes = {name: where(gateway, name)[0] for name in tails}
    # What they have in common is too little of the second: it went by load, in turn.
    assert reasons(gateway, "tax", "prefix") == {"shallow"}
    assert len(set(homes.values())) == 2
    for i in range(3):
        for name, tail in tails.items():
            complete(vip, common + tail + f"and question {i}", request_id=f"{name}-{i}")
            assert where(gateway, f"{name}-{i}")[0] == homes[name]
            assert tiers(gateway, f"{name}-{i}")[0] == "prefix"
    assert gateway.metric("loxilb_ai_pd_tier_selected_total", tier="prefix") == 6


def test_tk_chats_follow_what_the_user_said_not_only_the_system_prompt(gateway, pool):
    vip, _, _, _ = pool(2, 1, pd_cache_aware_mode=True, pd_cache_threshold=60)
    system = {"role": "system", "content": prompt("you are helpful ")}

    def talk(name, words):
        reply = chat(vip, [system, {"role": "user", "content": words}], request_id=name, max_tokens=2)
        assert reply.status == 200
        return where(gateway, name)[0]

    questions = {name: prompt(name) * 6 for name in ("law", "tax")}
    homes = {name: talk(name, words) for name, words in questions.items()}
    assert len(set(homes.values())) == 2
    for name, words in questions.items():
        assert talk(f"{name}-again", words + " go on") == homes[name]
        assert tiers(gateway, f"{name}-again")[0] == "prefix"


@pytest.mark.parametrize("threshold, tier", [(20, "prefix"), (80, "selector")])
def test_tk_too_little_of_a_prompt_is_no_reason(gateway, pool, threshold, tier):
    vip, _, _, _ = pool(2, 1, pd_cache_aware_mode=True, pd_cache_threshold=threshold)
    words = prompt()
    complete(vip, words, request_id="first")
    complete(vip, words + prompt(), request_id="half")
    assert tiers(gateway, "half")[0] == tier
    assert reasons(gateway, "half", "prefix") == ({"shallow"} if tier == "selector" else set())
    complete(vip, words, request_id="all")
    assert tiers(gateway, "all")[0] == "prefix"


@pytest.mark.parametrize("threshold, stays", [(0, False), (1, True)])
def test_tk_an_endpoint_that_is_too_far_ahead_is_not_followed(gateway, pool, threshold, stays):
    vip, prefills, _, _ = pool(2, 1, pd_cache_aware_mode=True, pd_balance_abs_threshold=threshold)
    words = prompt()
    complete(vip, words, request_id="first")
    home = next(e for e in prefills if e.address == where(gateway, "first")[0])
    home.arm("hang")
    with RawClient(vip) as client:
        ask(client, "busy", words)
        wait_until(lambda: len(posts(home)) == 2, 10, "it is busy")
        complete(vip, words, request_id="next")
        assert (where(gateway, "next")[0] == home.address) is stays
        assert tiers(gateway, "next")[0] == ("prefix" if stays else "selector")
        assert reasons(gateway, "next", "prefix") == (set() if stays else {"imbalance"})


def test_tk_every_tier_teaches(gateway, pool):
    vip, _, _, _ = pool(2, 1, pd_cache_aware_mode=True)
    turn(vip, "hello", user="anna")
    words = prompt()
    complete(vip, words, user="anna", request_id="by-session")
    assert tiers(gateway, "by-session")[0] == "session"
    for name in ("by-prefix", "once-more"):
        complete(vip, words, request_id=name)
        assert tiers(gateway, name)[0] == "prefix"
        assert where(gateway, name)[0] == where(gateway, "by-session")[0]


def test_tk_what_an_endpoint_saw_leaves_the_rule_with_it(gateway, engines):
    prefills, decodes = engines(2), engines(1)
    vip = gateway.vip()
    body = pd_rule(vip, prefills, decodes, pd_cache_aware_mode=True)
    gateway.create(body)
    words = prompt()
    complete(vip, words, request_id="first", user="anna")
    home = where(gateway, "first")[0]
    assert gateway.metric("loxilb_pd_trie_nodes") > 0
    rest = [e for e in prefills if e.address != home]
    gateway.create(pd_rule(vip, rest, decodes, pd_cache_aware_mode=True))
    assert gateway.metric("loxilb_pd_trie_nodes") == 0
    assert gateway.metric("loxilb_pd_sessions_active") == 0
    complete(vip, words, request_id="elsewhere", user="anna")
    assert where(gateway, "elsewhere")[0] == rest[0].address
    gateway.create(body)
    complete(vip, words, request_id="still", user="anna")
    assert where(gateway, "still")[0] == rest[0].address


# --- ids

RECEIPT = re.compile(r"___prefill_addr_(\S+)___decode_addr_(\S+)_([0-9a-f]{32})")


@pytest.mark.parametrize("ports", [(0, 0), (5600, 0), (0, 5601), (5600, 5601)])
@pytest.mark.parametrize("own", [None, "mine", "chatcmpl-___prefill_addr_1.2.3.4:5___decode_addr_x_0"])
def test_tc_an_id_names_transfer_ports_where_they_are_given_else_the_endpoints(
        gateway, engines, ports, own):
    prefill, decode = engines(2)
    vip = gateway.vip()
    body = pd_rule(vip, [prefill], [decode])
    wanted = []
    for row, port, engine in zip(body["endpoints"], ports, (prefill, decode)):
        if port:
            row["nixl_port"] = port
        wanted.append(f"127.0.0.1:{port}" if port else engine.address)
    gateway.create(body)
    last = None
    for _ in range(2):
        reply = complete(vip, prompt(), request_id=own)
        kept = reply.header("X-Request-Id")
        assert kept and kept == (own or kept)
        first, second = (header(posts(e)[-1], "X-Request-Id") for e in (prefill, decode))
        assert first == second != last
        assert list(RECEIPT.fullmatch(first).groups()[:2]) == wanted
        assert kept in reply.json()["id"] and first not in reply.body.decode()
        assert gateway.receipt(kept)["legs"][1]["endpoint"] == decode.address
        last = first
