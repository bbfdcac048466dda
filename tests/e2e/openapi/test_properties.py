"""Whatever is sent to an operation, the answer is one that the document declares, and what is refused changed nothing.

SLUICE_EXAMPLES multiplies the number of requests (the test `e2e.openapi-long`).
"""

import os
import urllib.parse

import pytest
from generate import ODD_TEXT, PATH_HINTS, TEXT, query_values, raw_bodies, values
from gateway import API
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from world import World, target_of

FACTOR = int(os.environ.get("SLUICE_EXAMPLES", "1"))
TYPES = ["application/json", "application/merge-patch+json", "application/json; charset=utf-8", "text/plain",
         "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "no/such;;type"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World(str(tmp_path_factory.mktemp("openapi"))) as one:
        yield one


def examples(operation):
    """How many requests an operation gets."""
    if operation.is_absent:
        return 4 * FACTOR
    if operation.body_schema() is None:
        return (15 if not operation.parameters else 40) * FACTOR
    return (80 if operation.path.startswith(f"{API}/config/loadbalancer") else 40) * FACTOR


def bounded(count):
    """The same requests in every run."""
    return settings(max_examples=count, derandomize=True, deadline=None, database=None,
                    phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck))


@st.composite
def requests(draw, world, operation):
    """(target, body, role, headers)"""
    path_values, query = {}, []
    for one in operation.parameters:
        name = one["name"]
        if one["in"] == "path":
            odd = st.one_of(ODD_TEXT, TEXT, st.integers(-1, 70000)).filter(lambda v: v not in ("", ".", ".."))
            path_values[name] = draw(PATH_HINTS.get(name, odd) if draw(st.integers(0, 3)) else odd)
        elif one["required"] and draw(st.integers(0, 5)) or not draw(st.integers(0, 4)):
            query.append((name, draw(query_values(one["schema"]))))
    if not draw(st.integers(0, 9)):
        query.append(draw(st.sampled_from([("colour", "1"), ("", ""), *query[:1]])))
    schema = operation.body_schema()
    body = draw(raw_bodies(world.document, schema)) if schema is not None else None
    role = draw(st.sampled_from(["admin"] * 6 + ["viewer", None]))
    headers = [("Content-Type", draw(st.sampled_from(TYPES)))] if body is not None and draw(st.booleans()) else []
    return target_of(operation, path_values, query), body, role, headers


def all_operations(world, wanted=lambda operation: True):
    return [o for o in world.document.operations if wanted(o)]


def failures_of(world, operations, attempt):
    """Every operation is tried, so that one fault does not hide the next."""
    found = []
    for operation in operations:
        try:
            attempt(operation)
        except AssertionError as fault:
            found.append(f"{operation}: {fault}")
        world.leave_maintenance()
        assert world.ask("GET", f"{API}/version").status == 200, f"the gateway is gone after {operation}"
    return found


def test_every_answer_is_declared_and_a_refusal_changes_nothing(world):
    before = {"state": world.state()}

    def attempt(operation):
        @bounded(examples(operation))
        @given(requests(world, operation))
        def run(request):
            target, body, role, headers = request
            reply = world.ask(operation.method, target, body, role, headers)
            world.check(operation, target, reply, role)
            if operation.method == "GET":
                return
            if reply.status < 300:
                before["state"] = world.state()
                return
            after = world.state()
            assert after == before["state"], f"{reply.status} {reply.body[:200]} changed the state"

        run()
        before["state"] = world.state()

    found = failures_of(world, all_operations(world), attempt)
    print(f"{world.sent} requests to {len(world.document.operations)} operations")
    assert not found, "\n".join(found)


def test_what_the_schemas_allow_is_often_taken(world):
    """Else the requests above would all be refused by the first check and prove little."""
    post = world.document.find("POST", f"{API}/config/loadbalancer")
    taken = []

    @bounded(60)
    @given(values(world.document, post.body_schema()))
    def run(body):
        reply = world.ask("POST", post.path, body)
        world.check(post, post.path, reply)
        taken.append(reply.status in (200, 409))  # 409: this very rule is there

    run()
    assert sum(taken) >= 10, f"{sum(taken)} of {len(taken)} rules were taken"


def test_a_body_needs_a_length_and_ends_with_it(world):
    def attempt(operation):
        target = target_of(operation, {p["name"]: "1" for p in operation.parameters if p["in"] == "path"}, [])
        head = (f"{operation.method} {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n")
        for more, statuses in [("\r\n", {411}),
                               ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
                               ("Content-Length: 99999999999\r\n\r\n", {413}),
                               ("Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n\r\n", {400, 404, 422})]:
            reply = world.exchange((head + more).encode(), operation.method)
            world.check(operation, target, reply)
            assert reply.status in statuses, f"{more!r}: {reply.status}"

    assert not (found := failures_of(
        world, all_operations(world, lambda o: o.body_schema() is not None and not o.is_absent), attempt)), found


def test_methods_and_paths_that_are_not_there(world):
    for path in world.document.root["paths"]:
        target = urllib.parse.quote(path.replace("{", "").replace("}", ""))
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"):
            if world.document.find(method, target) is None:
                reply = world.ask(method, target)
                assert reply is not None, f"{method} {target}"
                world.document.check(method, target, reply)
        reply = world.ask("GET", target + "/")
        world.document.check("GET", target + "/", reply)


def test_wrong_tokens_are_refused_and_then_limited(world):
    statuses = []

    @bounded(30)
    @given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=200))
    def run(token):
        operation = world.document.find("GET", f"{API}/config/loadbalancer/all")
        reply = world.ask("GET", operation.path, role=token, source="127.0.0.77")
        world.check(operation, operation.path, reply, role=token)
        statuses.append(reply.status)

    run()
    assert set(statuses) == {401, 429}
    assert world.ask("GET", f"{API}/config/loadbalancer/all").status == 200
