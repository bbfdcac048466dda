"""The document that the gateway serves, as a client reads it."""

import json

import jsonschema
import pytest
from described import DOCUMENT_PATH, Document
from gateway import API, Gateway, rule
from harness import exchange


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with Gateway(str(tmp_path_factory.mktemp("document"))) as one:
        yield one


@pytest.fixture(scope="module")
def document(gateway):
    return Document(json.loads(exchange(gateway.api, "GET", DOCUMENT_PATH).body))


def test_every_schema_is_one(document):
    for name, schema in document.root["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert document.faults_of({"$ref": f"#/components/schemas/{name}"}, 7) or name == "Any", name


def test_every_field_of_a_rule_is_described(gateway, document):
    fields = exchange(gateway.api, "GET", f"{API}/meta").json()["fields"]
    described = {(f["in"], f["name"]): f for f in fields}
    schemas = document.root["components"]["schemas"]
    for place, schema in (("", "Rule"), ("serviceArguments", "ServiceArguments"), ("endpoints[]", "Endpoint")):
        names = {name for at, name in described if at == place}
        assert names == set(schemas[schema]["properties"])
    assert described["serviceArguments", "kvMinMatchTokens"]["default"] == 16
    assert all(f.get("description") for f in fields), [f["name"] for f in fields if not f.get("description")]


def test_a_field_of_the_table_is_taken_and_one_that_is_not_there_is_refused(gateway, document):
    body = rule(gateway.vip(), ["127.0.7.1:1"])
    assert not document.faults_of({"$ref": "#/components/schemas/Rule"}, body)
    entry = gateway.create(body)
    assert not document.faults_of({"$ref": "#/components/schemas/Rule"}, entry)
    assert not document.faults_of({"$ref": "#/components/schemas/RuleEntry"}, entry)
    for wrong in ({"colour": 1}, {"port": 0}, {"port": "1"}, {"kvExactMode": 4}, {"path_match_mode": "glob"}):
        body["serviceArguments"] = {**body["serviceArguments"], **wrong}
        assert document.faults_of({"$ref": "#/components/schemas/Rule"}, body), wrong


def test_an_undeclared_answer_is_found(document):
    """The check itself can fail."""
    class Reply:
        status = 200
        body = b'{"result":"Success"}'

        def header(self, name):
            return {"content-type": "application/json"}.get(name.lower())

    reply = Reply()
    document.check("DELETE", f"{API}/config/loadbalancer/all", reply)
    for status, body, path in ((418, reply.body, "/all"), (200, b"{}", "/all"), (404, reply.body, "/name/x"),
                               (404, json.dumps({"code": "strange", "field": "", "message": "", "allowed": "",
                                                 "result": ""}).encode(), "/name/x")):
        reply.status, reply.body = status, body
        with pytest.raises(AssertionError):
            document.check("DELETE", f"{API}/config/loadbalancer{path}", reply)
