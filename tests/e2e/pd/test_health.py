"""Endpoints that probes or breakers take out: who is left serves, with nobody left it is said."""

import contextlib
import re

import pytest

from conftest import legs, pd_rule
from gateway import complete, rule, split_address
from harness import RawClient, exchange, wait_until
from pairs import ask, error, message, posts, prompt, same_text
from targets import HttpTarget

OUT = (503, "pd_pool_unavailable")
NOBODY = "no healthy prefill or decode endpoint"


def row_of(gateway, body, engine):
    """What is read back of an engine's endpoint."""
    wanted = split_address(engine.address)
    return next(e for e in gateway.find(body)["endpoints"]
                if (e["endpointIP"], e["targetPort"]) == wanted)


class Probed:
    """A P/D rule whose endpoints each have a health server: one port, an address each."""

    def __init__(self, ends, gateway, vip, prefills, decodes, wholes=(), **fields):
        self.gateway = gateway
        first = ends.enter_context(HttpTarget(host="127.0.1.1"))
        everyone = [*prefills, *decodes, *wholes]
        targets = [first] + [ends.enter_context(HttpTarget(host=f"127.0.1.{i}", port=first.port))
                             for i in range(2, len(everyone) + 1)]
        self.health = {e.address: t for e, t in zip(everyone, targets)}
        self.body = pd_rule(vip, prefills, decodes, wholes, monitor=True, probetype="http",
                            probeport=first.port, probereq="/health", probeTimeout=1, probeRetries=1,
                            **fields)
        for row, target in zip(self.body["endpoints"], targets):
            row["monitorAddress"] = target.host
        gateway.create(self.body)
        wait_until(lambda: all(t.asked for t in targets), 20, "first probes")

    def becomes(self, engine, state, status):
        self.health[engine.address].answer = (status, "")
        wait_until(lambda: row_of(self.gateway, self.body, engine)["state"] == state, 20, state)

    def down(self, engine):
        self.becomes(engine, "inactive", 503)

    def up(self, engine):
        self.becomes(engine, "active", 200)


@pytest.fixture
def ends():
    """What is entered here is ended with the test, last first."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("leg", ["prefill", "decode"])
def test_td_the_only_one_of_a_leg_that_fails_its_probe_stops_its_pool_alone(
        gateway, engines, ends, plain, leg):
    prefill, decode = engines(2)
    vip = gateway.vip()
    gateway.create(rule(vip, [plain.address], model_name="other", model_aliases={"other": "tiny"}))
    site = Probed(ends, gateway, vip, [prefill], [decode], model_name="tiny")
    words = prompt()
    assert same_text(complete(vip, words), plain, words)
    site.down(prefill if leg == "prefill" else decode)
    asked = len(posts(prefill)), len(posts(decode))
    for _ in range(3):
        reply = complete(vip, prompt())
        assert error(reply) == OUT and message(reply) == NOBODY and reply.header("Retry-After")
        assert complete(vip, prompt(), model="other").status == 200
    assert (len(posts(prefill)), len(posts(decode))) == asked
    site.up(prefill if leg == "prefill" else decode)
    words = prompt()
    assert same_text(complete(vip, words, request_id="back"), plain, words)
    assert [kind for kind, _, _ in legs(gateway, "back")] == ["prefill", "decode"]


@pytest.mark.parametrize("leg", ["prefill", "decode"])
def test_td_another_of_the_leg_serves_while_one_fails_its_probe(gateway, engines, ends, plain, leg):
    prefills, decodes = engines(2), engines(2)
    vip = gateway.vip()
    site = Probed(ends, gateway, vip, prefills, decodes)
    ill, well = prefills if leg == "prefill" else decodes
    site.down(ill)
    for _ in range(6):
        words = prompt()
        assert same_text(complete(vip, words), plain, words)
    assert not posts(ill) and len(posts(well)) == 6
    site.up(ill)
    def shares():
        assert complete(vip, prompt()).status == 200
        return posts(ill)
    wait_until(shares, 20, "it has its share again")


def test_td_a_probe_by_http_needs_a_port(gateway, engines):
    prefill, decode = engines(2)
    body = pd_rule(gateway.vip(), [prefill], [decode], monitor=True, probetype="http",
                   probereq="/health")
    reply = exchange(gateway.api, "POST", "/netlox/v1/config/loadbalancer", body)
    assert reply.status == 400
    assert (reply.json()["code"], reply.json()["field"]) == ("malformed_service_pport", "probeport")
    assert gateway.rules() == []


def test_td_what_is_remembered_of_an_endpoint_goes_when_its_probe_fails(gateway, engines, ends):
    prefills, decodes = engines(2), engines(1)
    vip = gateway.vip()
    site = Probed(ends, gateway, vip, prefills, decodes, pd_cache_aware_mode=True)
    words = prompt()
    assert complete(vip, words, request_id="first", user="anna").status == 200
    used = next(e for e in prefills if e.address == legs(gateway, "first")[0][1])
    other = next(e for e in prefills if e is not used)
    assert gateway.metric("loxilb_pd_sessions_active") == 1
    assert gateway.metric("loxilb_pd_trie_nodes") > 0
    site.down(used)
    wait_until(lambda: gateway.metric("loxilb_pd_sessions_active") == 0 and
               gateway.metric("loxilb_pd_trie_nodes") == 0, 10, "forgotten")
    assert complete(vip, words, request_id="then", user="anna").status == 200
    assert legs(gateway, "then")[0][1] == other.address
    site.up(used)
    # Both know the prompt now; it stays with whoever had it last.
    assert complete(vip, words, request_id="last", user="anna").status == 200
    leg = gateway.receipt("last")["legs"][0]
    assert (leg["endpoint"], leg["tier"]) == (other.address, "session")


@pytest.mark.parametrize("fields, served_by", [({}, "spare"),
                                               ({"pd_decode_only_fallback": True}, "decode")])
def test_with_no_healthy_prefill_whoever_may_serves_alone(gateway, engines, ends, plain, fields,
                                                          served_by):
    prefill, decode = engines(2)
    wholes = engines(1) if served_by == "spare" else []
    vip = gateway.vip()
    site = Probed(ends, gateway, vip, [prefill], [decode], wholes, **fields)
    site.down(prefill)
    words = prompt()
    assert same_text(complete(vip, words, request_id="need"), plain, words)
    server = wholes[0] if wholes else decode
    assert [leg[:2] for leg in legs(gateway, "need")] == [("whole", server.address)]
    site.up(prefill)
    assert same_text(complete(vip, words, request_id="again"), plain, words)
    assert [leg[0] for leg in legs(gateway, "again")] == ["prefill", "decode"]


def test_nobody_waits_for_a_place_at_a_prefill_that_fails_its_probe(gateway, engines, ends):
    prefill, decode = engines(2)
    vip = gateway.vip()
    site = Probed(ends, gateway, vip, [prefill], [decode], pd_max_inflight_per_ep=1,
                  pd_queue_depth_per_ep=4, pd_max_park_ms=600_000)
    prefill.arm("hang", 1)
    with RawClient(vip) as first, RawClient(vip, limit_s=30) as parked:
        ask(first, "first")
        wait_until(lambda: posts(prefill), 10, "the first is there")
        ask(parked, "parked")
        wait_until(lambda: gateway.metric("loxilb_pd_admission_waiting") == 1, 10, "it waits")
        site.down(prefill)
        reply = parked.read_reply()
    assert error(reply) == OUT and message(reply) == NOBODY
    assert gateway.receipt("parked")["legs"] == []


# --- breakers

def guarded(vip, prefills, decodes, **numbers):
    return pd_rule(vip, prefills, decodes,
                   breaker={"failures": 2, "open_ms": 3_600_000, **numbers})


def flips(gateway):
    """From and to of every flip, as the log has them."""
    return re.findall(r"breaker flipped\" .*from=(\w+) to=(\w+)", gateway.log())


def change(gateway, body, **numbers):
    """Other numbers of the breaker; nothing else."""
    body["serviceArguments"]["breaker"].update(numbers)
    gateway.create(body)


@pytest.mark.parametrize("leg", ["prefill", "decode"])
def test_ti_the_breaker_of_the_only_one_opens_half_opens_reopens_and_closes(
        gateway, engines, plain, leg):
    prefill, decode = engines(2)
    ill = prefill if leg == "prefill" else decode
    vip = gateway.vip()
    body = guarded(vip, [prefill], [decode])
    gateway.create(body)

    def state():
        return row_of(gateway, body, ill)["breaker"]

    ill.kill()
    for _ in range(2):
        assert state() == "closed"
        reply = complete(vip, prompt())
        assert error(reply) == OUT and "unreachable" in message(reply)
    assert state() == "open"
    row = row_of(gateway, body, ill)
    assert (row["state"], row["reason"]) == ("inactive", "breaker open")
    reply = complete(vip, prompt(), request_id="shut")
    assert error(reply) == OUT and message(reply) == NOBODY and reply.header("Retry-After")
    receipt = gateway.receipt("shut")
    assert receipt["legs"] == []
    assert "open" in [c.get("excluded") for c in receipt["candidates"]]
    ill.restart()
    assert message(complete(vip, prompt())) == NOBODY and not posts(ill)
    ill.kill()
    change(gateway, body, open_ms=1)
    wait_until(lambda: state() == "half_open", 5, "half open")
    reply = complete(vip, prompt())
    assert error(reply) == OUT and "unreachable" in message(reply)
    assert flips(gateway)[-1] == ("half_open", "open")
    ill.restart()
    wait_until(lambda: state() == "half_open", 5, "half open")
    words = prompt()
    assert same_text(complete(vip, words, request_id="healed"), plain, words)
    assert [kind for kind, _, _ in legs(gateway, "healed")] == ["prefill", "decode"]
    assert state() == "closed"
    seen = flips(gateway)
    assert seen[0] == ("closed", "open") and seen[-1] == ("half_open", "closed")
    assert gateway.metric("loxilb_pd_cb_flips_total") == len(seen)
    assert gateway.metric("loxilb_pd_cb_proactive_heal_total") == seen.count(("open", "half_open"))


@pytest.mark.parametrize("leg", ["prefill", "decode"])
def test_ti_others_of_the_leg_go_on_while_a_breaker_is_open_and_it_comes_back(
        gateway, engines, plain, leg):
    prefills, decodes = engines(2), engines(2)
    ill, well = prefills if leg == "prefill" else decodes
    vip = gateway.vip()
    body = guarded(vip, prefills, decodes)
    gateway.create(body)
    ill.kill()

    def is_open():
        words = prompt()
        assert same_text(complete(vip, words), plain, words)
        return row_of(gateway, body, ill)["breaker"] == "open"

    wait_until(is_open, 20, "it is open")
    ill.restart()
    before = len(posts(well))
    for _ in range(6):
        words = prompt()
        assert same_text(complete(vip, words), plain, words)
    assert not posts(ill) and len(posts(well)) == before + 6
    change(gateway, body, open_ms=1)

    def is_used():
        words = prompt()
        assert same_text(complete(vip, words), plain, words)
        return posts(ill)

    wait_until(is_used, 20, "it is used again")
    assert row_of(gateway, body, ill)["breaker"] == "closed"


@pytest.mark.parametrize("leg", ["prefill", "decode"])
def test_ti_5xx_in_a_row_open_the_breaker_and_4xx_never_do(gateway, engines, plain, leg):
    prefills, decodes = engines(2), engines(2)
    ill, well = prefills if leg == "prefill" else decodes
    vip = gateway.vip()
    body = guarded(vip, prefills, decodes, origin_5xx=3)
    gateway.create(body)
    for _ in range(12):
        assert complete(vip, prompt(), temperature=-1).status == 400
    assert {e["breaker"] for e in gateway.find(body)["endpoints"]} == {"closed"}
    ill.arm("status:500", 0)
    arrived = len(posts(ill))

    def is_open():
        words = prompt()
        assert same_text(complete(vip, words), plain, words)
        return row_of(gateway, body, ill)["breaker"] == "open"

    wait_until(is_open, 20, "it is open")
    assert len(posts(ill)) == arrived + 3
    assert row_of(gateway, body, well)["breaker"] == "closed"


def test_ti_exactly_so_many_try_a_half_open_prefill(gateway, engines):
    """Others are turned away meanwhile, and one whose client leaves gives its trial back."""
    prefill, decode = engines(2)
    vip = gateway.vip()
    body = guarded(vip, [prefill], [decode], failures=1, half_open_trials=1)
    gateway.create(body)
    prefill.kill()
    assert error(complete(vip, prompt())) == OUT
    prefill.restart()
    prefill.arm("hang", 1)
    change(gateway, body, open_ms=1)
    wait_until(lambda: row_of(gateway, body, prefill)["breaker"] == "half_open", 5, "half open")
    with RawClient(vip) as client:
        ask(client, "trial")
        wait_until(lambda: posts(prefill), 10, "the trial is there")
        for _ in range(3):
            assert error(complete(vip, prompt())) == OUT
        assert len(posts(prefill)) == 1
    assert gateway.receipt("trial")["outcome"] == "client_closed"
    assert complete(vip, prompt()).status == 200
    assert row_of(gateway, body, prefill)["breaker"] == "closed"
