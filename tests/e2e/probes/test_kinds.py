"""Every kind of probe and every field of it, over REST and against what answers: it is asked as the rule says, and its
answers decide."""

import socket

import pytest

from gateway import API, rule, split_address
from harness import exchange, wait_until
from targets import DatagramTarget, HttpTarget, LineTarget


def probed(vip, target, kind, endpoint=None, **more):
    """A rule that probes `target` (HOST:PORT) once a second, on its own port."""
    port = {} if kind == "ping" else {"probeport": split_address(target)[1]}
    return rule(vip, [(target, endpoint or {})], probetype=kind, probeTimeout=1, probeRetries=1, **port, **more)


def endpoint(gateway, body):
    return gateway.find(body)["endpoints"][0]


def entry(gateway):
    """The only probe in force."""
    (one,) = gateway.get("/config/endpoint/all").json()["Attr"]
    return one


def becomes(gateway, body, state):
    wait_until(lambda: endpoint(gateway, body)["state"] == state, 20, state)
    return endpoint(gateway, body)


def was_asked(gateway):
    """A try succeeded."""
    wait_until(lambda: entry(gateway)["avgDelay"], 20, "a try succeeded")
    return entry(gateway)


def test_an_http_probe_is_as_its_endpoint_says(gateway):
    with HttpTarget() as target:
        target.answer = (204, "")
        fields = {"httpMethod": "POST", "urlPath": "/v1/ready?deep=1", "expectedCodes": "200-204,301",
                  "httpVersion": "1.0", "domainName": "engine.example"}
        body = probed(gateway.vip(), target.address, "http", fields, probereq="/health")
        read_back = gateway.create(body)
        assert {k: read_back["endpoints"][0][k] for k in fields} == fields
        listed = was_asked(gateway)
        assert {k: listed[k] for k in fields} == fields and listed["probeType"] == "http"
        asked = target.asked[0]
        assert asked[:3] == ("POST", "/v1/ready?deep=1", "HTTP/1.0")
        assert (asked.headers["host"], asked.headers["content-length"]) == ("engine.example", "0")
        target.answer = (205, "")
        down = becomes(gateway, body, "inactive")
        assert down["reason"] == "probe: status 205" and down["inActiveEP"] is True


def test_a_body_must_hold_what_proberesp_says(gateway):
    with HttpTarget() as target:
        target.answer = (200, '{"status": "loading"}')
        body = probed(gateway.vip(), target.address, "http", proberesp='"ready"')
        gateway.create(body)
        assert "does not hold" in becomes(gateway, body, "inactive")["reason"]
        target.answer = (200, '{"status": "ready"}')
        becomes(gateway, body, "active")
        assert entry(gateway)["probeResp"] == '"ready"'


def test_a_redirect_is_a_status_and_leads_nowhere(gateway):
    with HttpTarget() as target, HttpTarget() as elsewhere:
        target.answer = (302, "")
        body = probed(gateway.vip(), target.address, "http")
        gateway.create(body)
        assert becomes(gateway, body, "inactive")["reason"] == "probe: status 302"
        assert elsewhere.asked == []


def test_c16_a_virtual_host_is_asked_by_its_own_name(gateway):
    with HttpTarget() as target:
        target.only_host = "worker-7.internal"
        body = probed(gateway.vip(), target.address, "http")
        gateway.create(body)
        assert becomes(gateway, body, "inactive")["reason"] == "probe: status 404"
        body["endpoints"][0]["domainName"] = target.only_host
        gateway.create(body)
        becomes(gateway, body, "active")
        # Without a name it is asked, and sent requests, as the address it is.
        target.only_host = target.address
        del body["endpoints"][0]["domainName"]
        gateway.create(body)
        becomes(gateway, body, "active")
        seen = len(target.asked)
        vip = "{externalIP}:{port}".format(**body["serviceArguments"])
        assert exchange(vip, "GET", "/v1/models").status == 200
        assert [a.target for a in target.asked[seen:] if a.headers.get("user-agent") != "sluice-probe"] == ["/v1/models"]


def test_https_and_tls_hello_probes(gateway, tmp_path):
    with HttpTarget(tls=tmp_path) as target, HttpTarget() as plain:
        host, port = split_address(target.address)
        target.answer = (200, "ready")
        body = probed(gateway.vip(), target.address, "https", {"domainName": "engine.example"}, probereq="/health",
                      proberesp="ready")
        gateway.create(body)
        was_asked(gateway)
        assert target.asked[0].target == "/health" and target.asked[0].headers["host"] == "engine.example"
        assert target.names[0] == "engine.example"
        target.answer = (503, "")
        assert becomes(gateway, body, "inactive")["reason"] == "probe: status 503"
        assert gateway.delete("/config/loadbalancer/all").status == 200
        for name, at in (("hello", port), ("deaf", split_address(plain.address)[1])):
            made = exchange(gateway.api, "POST", f"{API}/config/endpoint",
                            {"hostName": host, "name": name, "probeType": "tls-hello", "probePort": at,
                             "probeDuration": 1, "inactiveReTries": 1})
            assert made.status == 200, made.body
        def states():
            return {e["name"]: (e["currState"], bool(e["avgDelay"]))
                    for e in gateway.get("/config/endpoint/all").json()["Attr"]}
        wait_until(lambda: states() == {"hello": ("ok", True), "deaf": ("nok", False)}, 20, "both judged")


def test_a_tcp_probe_sends_and_expects(gateway):
    with LineTarget(b"+PONG\r\n") as target:
        body = probed(gateway.vip(), target.address, "tcp", probereq="PING\r\n", proberesp="+PONG")
        gateway.create(body)
        listed = was_asked(gateway)
        assert target.asked[0] == b"PING\r\n"
        assert (listed["probeReq"], listed["probeResp"], listed["urlPath"]) == ("PING\r\n", "+PONG", "")
        target.answer = b"-LOADING\r\n"
        becomes(gateway, body, "inactive")
        target.answer = b"+PONG\r\n"
        becomes(gateway, body, "active")


def test_a_udp_probe_tells_an_answer_from_a_refusal(gateway):
    with DatagramTarget(b"pong") as target:
        body = probed(gateway.vip(), target.address, "udp", probereq="ping", proberesp="pong")
        gateway.create(body)
        was_asked(gateway)
        assert target.asked[0] == b"ping"
        target.answer = b"busy"
        assert "no answer" in becomes(gateway, body, "inactive")["reason"]
        # Where nothing is expected silence is up, and only a refusal is down.
        target.answer = None
        silent = probed(gateway.vip(), target.address, "udp")
        gateway.create(silent)
        seen = len(target.asked)
        wait_until(lambda: target.asked[seen:].count(b"") >= 2, 20, "two tries")
        assert endpoint(gateway, silent)["state"] == "active"
        target.stop()
        assert "refused" in becomes(gateway, silent, "inactive")["reason"]


def test_monitor_alone_is_a_connect_to_the_endpoints_own_port(gateway):
    with HttpTarget() as target:
        body = rule(gateway.vip(), [target.address], monitor=True, probeTimeout=1, probeRetries=1)
        gateway.create(body)
        listed = was_asked(gateway)
        assert (listed["probeType"], listed["probePort"]) == ("tcp", target.port)
        target.stop()
        assert "refused" in becomes(gateway, body, "inactive")["reason"]
        target.start()
        becomes(gateway, body, "active")


def test_another_address_is_probed_in_the_place_of_the_endpoints(gateway):
    with HttpTarget() as target, HttpTarget(host="127.0.0.9") as monitor:
        body = rule(gateway.vip(), [(target.address, {"monitorAddress": "127.0.0.9"})], probetype="http",
                    probeport=monitor.port, probeTimeout=1, probeRetries=1)
        gateway.create(body)
        assert was_asked(gateway)["hostName"] == "127.0.0.9"
        monitor.answer = (500, "")
        becomes(gateway, body, "inactive")
        assert target.asked == []


def has_sctp():
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132).close()
    except OSError:
        return False
    return True


def may_ping():
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        try:
            socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP).close()
        except OSError:
            continue
        return True
    return False


@pytest.mark.parametrize("kind, can", [("ping", may_ping()), ("sctp", has_sctp())])
def test_a_probe_that_this_machine_cannot_make_is_refused(gateway, kind, can):
    body = probed(gateway.vip(), "127.0.0.1:9", kind)
    made = exchange(gateway.api, "POST", f"{API}/config/loadbalancer", body)
    watched = exchange(gateway.api, "POST", f"{API}/config/endpoint",
                       {"hostName": "127.0.0.1", "probeType": kind, **({} if kind == "ping" else {"probePort": 9})})
    for reply in (made, watched):
        if can:
            assert reply.status == 200, reply.body
        else:
            assert (reply.status, reply.json()["code"]) == (400, "probe_impossible")
            assert reply.json()["message"]
    if not can:
        assert gateway.rules() == [] and gateway.get("/config/endpoint/all").json()["Attr"] == []
    elif kind == "ping":
        wait_until(lambda: any(e["avgDelay"] for e in gateway.get("/config/endpoint/all").json()["Attr"]), 20, "reply")
        assert endpoint(gateway, body)["state"] == "active"


@pytest.mark.parametrize("arguments, code", [
    ({"probetype": "udp"}, "malformed_service_pport"),
    ({"probetype": "sctp"}, "malformed_service_pport"),
    ({"probetype": "https"}, "malformed_service_pport"),
    ({"probetype": "ping", "probeport": 7}, "malformed_service_pport"),
    ({"probetype": "none", "probeport": 7}, "malformed_service_pport"),
    ({"probeport": 7}, "malformed_service_pport"),
    ({"probetype": "tls-hello", "probeport": 7}, "malformed_service_ptype"),
    ({"probetype": "ping", "probereq": "/h"}, "probereq_unused"),
    ({"proberesp": "ok"}, "proberesp_unused"),
])
def test_fields_that_do_not_go_together_are_refused(gateway, arguments, code):
    reply = exchange(gateway.api, "POST", f"{API}/config/loadbalancer",
                     rule(gateway.vip(), ["127.0.0.1:9"], **arguments))
    assert (reply.status, reply.json()["code"]) == (400, code)
    assert gateway.rules() == []


def test_probing_is_patched_in_place(gateway):
    with HttpTarget() as target:
        body = probed(gateway.vip(), target.address, "http", probereq="/health")
        gateway.create(body)
        was_asked(gateway)
        at = "/config/loadbalancer/externalipaddress/{externalIP}/port/{port}/protocol/tcp".format(
            **body["serviceArguments"])
        change = {"probeTimeout": 2, "probeRetries": 3, "probereq": "/ready", "proberesp": "yes"}
        reply = exchange(gateway.api, "PATCH", API + at, {"serviceArguments": change})
        assert reply.status == 200, reply.body
        have = gateway.find(body)["serviceArguments"]
        assert {k: have[k] for k in change} == change
        target.answer = (200, "yes")
        wait_until(lambda: target.asked[-1].target == "/ready", 20, "asked as patched")
        listed = entry(gateway)
        assert (listed["probeDuration"], listed["inactiveReTries"], listed["probeResp"]) == (2, 3, "yes")
        # Back to what is not said: the defaults.
        reply = exchange(gateway.api, "PATCH", API + at, {"serviceArguments": {"probeTimeout": None}})
        assert reply.status == 200 and gateway.find(body)["effective"]["probeTimeout"] == 60


def test_health_objects_are_read_back_whole_and_probe_so(gateway):
    with HttpTarget() as target:
        host, port = split_address(target.address)
        target.answer = (202, "fine")
        made = {"hostName": host, "name": "mine", "inactiveReTries": 1, "probeType": "http", "probeReq": "/h",
                "probeResp": "fine", "probeDuration": 1, "probePort": port, "httpMethod": "GET", "urlPath": "/h",
                "expectedCodes": "200,202", "httpVersion": "1.1", "domainName": "a.example"}
        assert exchange(gateway.api, "POST", f"{API}/config/endpoint", made).status == 200
        listed = was_asked(gateway)
        assert {k: listed[k] for k in made} == made and listed["currState"] == "ok"
        target.answer = (200, "ill")
        wait_until(lambda: entry(gateway)["currState"] == "nok", 20, "down")
        assert "does not hold" in entry(gateway)["reason"]
        gateway.kill()
        gateway.start()
        target.answer = (200, "fine")
        assert {k: was_asked(gateway)[k] for k in made} == made
