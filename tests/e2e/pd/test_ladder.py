"""When one leg is enough, and what is chosen by the blocks that engines say they hold."""

import json

import pytest

from conftest import legs, pd_rule
from gateway import Gateway, chat, complete, free_port, rule
from harness import events_config, wait_until
from pairs import posts, prompt, same_text

EXACT = {"kvExactMode": 1, "kvColdSeedEvery": 0, "kvLbMode": "off"}


@pytest.fixture
def listening(engines):
    """Engines that publish their blocks."""
    return lambda count: engines(count, "--kv-events-config", events_config())


def kinds(gateway, name):
    return [kind for kind, _, _ in legs(gateway, name)]


def reasons(gateway, name):
    return {m["reason"] for m in gateway.receipt(name)["misses"]}


# --- pd_conditional

def test_prefill_is_left_out_when_decode_holds_the_prompt(gateway, listening, plain):
    prefill, decode = listening(2)
    vip = gateway.vip()
    body = pd_rule(vip, [prefill], [decode], pd_conditional=True, **EXACT)
    made = gateway.create(body)
    words = prompt()
    assert complete(decode.address, words).status == 200
    blocks = len(decode.cache())
    gateway.wait_blocks(body, decode.address, blocks)
    told = gateway.explain({"rule": made["number"], "body": {"model": "tiny", "prompt": words}}).json()
    assert [(leg["kind"], leg["endpoint"]) for leg in told["legs"]] == [("whole", decode.address)]
    reply = complete(vip, words, request_id="held")
    assert same_text(reply, plain, words)
    assert kinds(gateway, "held") == ["whole"] and "decode_holds_prompt" in reasons(gateway, "held")
    assert not posts(prefill)
    receipt = gateway.receipt("held")
    assert receipt["tokens"]["predicted_cached"] == receipt["tokens"]["reported_cached"] > 0
    assert gateway.metric("loxilb_pd_leases_total") == 0


@pytest.mark.parametrize("more", [{"pd_conditional": False}, {}])
def test_prefill_runs_when_decode_holds_less_or_the_rule_does_not_say(gateway, listening, plain, more):
    prefill, decode = listening(2)
    vip = gateway.vip()
    body = pd_rule(vip, [prefill], [decode], **{"pd_conditional": True, **more}, **EXACT)
    gateway.create(body)
    words = prompt()
    assert complete(decode.address, words).status == 200
    if "pd_conditional" not in more:
        gateway.wait_blocks(body, decode.address, 1)
        words += " and then " + prompt()
    assert same_text(complete(vip, words, request_id="less"), plain, words)
    assert kinds(gateway, "less") == ["prefill", "decode"]
    assert len(posts(prefill)) == 1


def test_what_counts_as_holding_the_prompt_is_the_least_that_is_worth_a_prefill(
        gateway, listening, plain):
    prefill, decode = listening(2)
    vip = gateway.vip()
    body = pd_rule(vip, [prefill], [decode], pd_conditional=True, pd_min_prompt_tokens=60, **EXACT)
    gateway.create(body)
    words = prompt()
    assert complete(decode.address, words).status == 200
    gateway.wait_blocks(body, decode.address, len(decode.cache()))
    assert same_text(complete(vip, words + " fox jumps over", request_id="few"), plain,
                     words + " fox jumps over")
    assert kinds(gateway, "few") == ["whole"]
    longer = words + " quick brown foxes jump over lazy dogs" * 12
    assert same_text(complete(vip, longer, request_id="many"), plain, longer)
    assert kinds(gateway, "many") == ["prefill", "decode"]


# --- pd_min_prompt_tokens

@pytest.mark.parametrize("ask", ["ids", "chat"])
def test_a_prompt_is_short_by_its_tokens_whatever_it_is_made_of(gateway, pool, ask):
    vip, (prefill,), (decode,), _ = pool(pd_min_prompt_tokens=40)

    def send(name, count):
        if ask == "ids":
            return complete(vip, list(range(100, 100 + count)), request_id=name)
        return chat(vip, [{"role": "user", "content": " the" * count}], request_id=name, max_tokens=2)

    assert send("short", 20 if ask == "ids" else 1).status == 200
    assert kinds(gateway, "short") == ["whole"] and not posts(prefill)
    assert send("long", 40 if ask == "ids" else 200).status == 200
    assert kinds(gateway, "long") == ["prefill", "decode"]
    if ask == "ids":
        assert send("under", 39).status == 200
        assert kinds(gateway, "under") == ["whole"]


def test_with_decode_gone_a_short_prompt_runs_where_whole_requests_run(gateway, pool, plain):
    vip, (prefill,), (decode,), (spare,) = pool(1, 1, 1, pd_min_prompt_tokens=1000)
    decode.kill()
    words = prompt()
    assert same_text(complete(vip, words, request_id="spare"), plain, words)
    assert legs(gateway, "spare")[-1][:2] == ("whole", spare.address)
    assert not posts(prefill)
    assert gateway.metric("loxilb_pd_fallback_to_normal_total") == 1


# --- kvExactMode 1

def test_endpoints_of_a_pair_can_be_followed_through_another_gateway(
        tmp_path, tokenizers, listening, plain):
    prefills, decodes = listening(2), listening(1)
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    with Gateway(str(folders[0]), tokenizers=tokenizers) as first, \
            Gateway(str(folders[1]), tokenizers=tokenizers) as second:
        port = free_port()
        body = pd_rule(first.vip(), prefills, decodes, kvRepublish=f"tcp://127.0.0.1:{port}", **EXACT)
        first.create(body)
        vip = second.vip()
        follower = pd_rule(vip, prefills, decodes, kvEventsFrom=f"http://{first.api}", **EXACT)
        second.create(follower)
        words = prompt()
        holder = prefills[1]
        assert complete(holder.address, words).status == 200
        second.wait_blocks(follower, holder.address, len(holder.cache()), 30)
        for i in range(3):
            assert same_text(complete(vip, words, request_id=f"exact-{i}"), plain, words)
            leg = second.receipt(f"exact-{i}")["legs"][0]
            assert (leg["kind"], leg["endpoint"], leg["tier"]) == ("prefill", holder.address, "kv_exact")
            assert leg["matched_blocks"] > 0
        assert second.metric("loxilb_pd_kv_tier15_hits_total") == 3
        decoded = json.loads(posts(decodes[0])[-1]["body"])
        assert decoded["kv_transfer_params"]["do_remote_prefill"] is True


def test_decode_endpoints_are_followed_only_where_that_matters(gateway, listening):
    prefill, decode = listening(2)
    bodies = [pd_rule(gateway.vip(), [prefill], [decode], pd_conditional=flag, **EXACT)
              for flag in (False, True)]
    for body in bodies:
        gateway.create(body)
    gateway.wait_signal(bodies[1], ("ok", "quiet"))
    by_port = [{e["targetPort"]: e.get("kv", {}).get("signal") for e in gateway.find(body)["endpoints"]}
               for body in bodies]
    port = int(decode.address.rsplit(":", 1)[1])
    assert by_port[0][port] is None and by_port[1][port] in ("ok", "quiet")


def test_a_session_goes_before_what_engines_hold_and_load_comes_last(gateway, listening):
    prefills, decodes = listening(2), listening(1)
    vip = gateway.vip()
    body = pd_rule(vip, prefills, decodes, pd_cache_aware_mode=True, **EXACT)
    gateway.create(body)
    complete(vip, prompt(), request_id="cold", user="anna")
    home = next(e for e in prefills if e.address == legs(gateway, "cold")[0][1])
    other = next(e for e in prefills if e is not home)
    words = prompt()
    assert complete(other.address, words).status == 200
    gateway.wait_blocks(body, other.address, len(other.cache()))
    for name, user, endpoint, tier in (("by-blocks", "bert", other, "kv_exact"),
                                       ("by-prefix", "cleo", other, "prefix"),
                                       ("by-session", "anna", home, "session")):
        complete(vip, words, request_id=name, user=user)
        leg = gateway.receipt(name)["legs"][0]
        assert (leg["endpoint"], leg["tier"]) == (endpoint.address, tier), name
