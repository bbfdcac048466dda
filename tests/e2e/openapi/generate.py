"""Requests from the schemas of the OpenAPI document: what they allow, and what they do not.

`values(document, schema)` draws a value the schema allows, near to what the gateway takes (HINTS has what a
schema cannot say); `spoiled(document, schema)` draws one with a fault in it; `raw_bodies(document, schema)`
draws the bytes of a body, good and bad.
"""

import json
import os
import tempfile

from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir

# It keeps a table of characters; not in the source tree.
set_hypothesis_home_dir(os.path.join(tempfile.gettempdir(), f"sluice-hypothesis-{os.getuid()}"))

IPS = ["127.9.8.7", "127.9.8.6"]

# Members by name. Only loopback addresses: what is made here is bound and probed.
HINTS = {
    "externalIP": st.sampled_from(IPS),
    "endpointIP": st.sampled_from(["127.9.7.1", "127.9.7.2", "127.9.7.3"]),
    "hostName": st.sampled_from(["127.9.7.1", "127.9.7.2"]),
    "monitorAddress": st.just("127.9.7.9"),
    "endpoint_ip": st.sampled_from(["127.9.7.1:1", "127.9.7.2:2"]),
    "port": st.integers(20001, 20004),
    "targetPort": st.integers(1, 4),
    "mode": st.just(4),
    "prefix": st.sampled_from(["127.0.0.0/8", "10.0.0.0/8", "::1/128"]),
    "host": st.sampled_from(["", "a.example", "b.example:8080", "127.9.8.7"]),
    "model_name": st.sampled_from(["", "m", "org/m"]),
    "path_prefix": st.sampled_from(["", "/v1"]),
    "id": st.sampled_from(["one", "two"]),
    "service_id": st.sampled_from(["1", "2", "one", "nobody"]),
    "probereq": st.sampled_from(["/health", "health"]),
    "kvExactMode": st.sampled_from([0, 3]),
    "engine": st.just("vllm"),
    "selector": st.sampled_from(["rr", "lc"]),
    "kvEventsFrom": st.just("http://127.9.7.1:1"),
    "expectedCodes": st.sampled_from(["200", "200,204", "200-299"]),
    "urlPath": st.just("/health"),
    "httpMethod": st.sampled_from(["GET", "HEAD", "POST"]),
    "domainName": st.sampled_from(["", "a.example", "a.example:8080"]),
    "session_header_name": st.sampled_from(["X-Session", "cookie:s"]),
    "kvRepublish": st.just("tcp://127.9.8.7:1"),
}
PATH_HINTS = {
    "ip": HINTS["externalIP"],
    "port": HINTS["port"],
    "proto": st.just("tcp"),
    "hosturl": st.sampled_from(["any", "a.example"]),
    "id": HINTS["id"],
    "name": st.sampled_from(["chat", "nobody"]),
}

TEXT = st.text(st.characters(blacklist_categories=("Cs",)), max_size=40)
ODD_TEXT = st.sampled_from(["", " ", "\x00", "a\x00b", "\n", "\x7f", "\u202e", "\ud7ff", "\U0001f600" * 9, "x" * 5000,
                            "../../etc/passwd", "%00", "'; DROP TABLE rules; --", "{{7*7}}", "null", "NaN"])
ODD_NUMBERS = st.sampled_from([-1, -(2**63), 2**31, 2**32, 2**53 + 1, 2**63, 2**64 - 1, 2**64, 10**40, 0.5, 1e308,
                               -0.0, 1.0])
ODD = st.one_of(st.none(), st.booleans(), ODD_NUMBERS, ODD_TEXT, st.just([]), st.just({}), st.just([[]]),
                st.just({"a": {"b": [1, None, "c"]}}))


def mostly(draw):
    """Nearly always, and always in what a failure is reduced to: a rule has many fields."""
    return draw(st.integers(0, 39)) < 39


def is_there(schema):
    """A field that the gateway takes a value of its own for."""
    standing = schema.get("x-sluice-standing")
    return not schema.get("readOnly") and (standing != "not_supported_yet" or "default" in schema)


@st.composite
def values(draw, document, schema, name=""):
    schema = document.resolved(schema)
    standing = schema.get("x-sluice-standing")
    if standing == "not_supported_yet" and "default" in schema and mostly(draw):
        return schema["default"]
    if name in HINTS and mostly(draw):
        return draw(HINTS[name])
    if "const" in schema:
        return schema["const"]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return draw(values(document, draw(st.sampled_from(schema[key])), name))
    built = schema.get("x-sluice-built")
    if built and mostly(draw):
        return draw(st.sampled_from(built))
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kind = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kind, list):
        kind = draw(st.sampled_from(kind))
    return draw(of_kind(document, schema, kind))


@st.composite
def of_kind(draw, document, schema, kind):
    if kind == "boolean":
        return draw(st.booleans())
    if kind == "integer":
        return draw(st.integers(schema.get("minimum", -(2**31)), schema.get("maximum", 2**40)))
    if kind == "number":
        return draw(st.floats(schema.get("minimum", -1e9), schema.get("maximum", 1e9)))
    if kind == "string":
        longest = min(schema.get("maxLength", 40), 40)
        return draw(st.text(st.characters(whitelist_categories=("L", "N", "P")),
                            min_size=min(schema.get("minLength", 0), 40), max_size=longest))
    if kind == "null":
        return None
    if kind == "array":
        least = schema.get("minItems", 0)
        return draw(st.lists(values(document, schema.get("items", {})), min_size=least,
                             max_size=min(schema.get("maxItems", 3), least + 2)))
    if kind == "object":
        return draw(objects(document, schema))
    return draw(ODD)


@st.composite
def objects(draw, document, schema):
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    more = [n for n in properties if n not in required and (is_there(properties[n]) or not mostly(draw))]
    chosen = draw(st.lists(st.sampled_from(more), unique=True, max_size=5)) if more else []
    out = {n: draw(values(document, properties.get(n, {}), n)) for n in [*required, *chosen]}
    extra = schema.get("additionalProperties", None)
    if isinstance(extra, dict):
        for key in draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=2)):
            out[key] = draw(values(document, extra))
    return out


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from places(item, (*path, i))


def replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def without(value, path):
    if len(path) == 1:
        return {k: v for k, v in value.items() if k != path[0]}
    return replaced(value, path[:1], without(value[path[0]], path[1:]))


def at(value, path):
    for step in path:
        value = value[step]
    return value


@st.composite
def spoiled(draw, document, schema):
    """A value with one thing in it that is odd: mostly not allowed, sometimes just rare."""
    value = draw(values(document, schema))
    path = draw(st.sampled_from(list(places(value))))
    how = draw(st.integers(0, 3))
    if how == 0 and path and isinstance(path[-1], str):
        return without(value, path)
    if how == 1:
        inner = [p for p in places(value) if isinstance(at(value, p), dict)]
        if inner:
            path = draw(st.sampled_from(inner))
            name = draw(st.one_of(st.sampled_from(["colour", "PORT", "__proto__", ""]), TEXT))
            return replaced(value, path, {**at(value, path), name: draw(ODD)})
    return replaced(value, path, draw(ODD))


def nested(depth):
    return b"[" * depth + b"]" * depth


@st.composite
def raw_bodies(draw, document, schema):
    how = draw(st.integers(0, 9))
    if how <= 4:
        return json.dumps(draw(values(document, schema))).encode()
    if how <= 7:
        return json.dumps(draw(spoiled(document, schema))).encode()
    text = json.dumps(draw(values(document, schema))).encode()
    return draw(st.sampled_from([
        b"", b" ", b"null", b"[]", b"{}", b"\xef\xbb\xbf" + text, text[:-1], text + text, text + b"\x00",
        text.replace(b"{", b'{"endpoints":[],"endpoints":[],', 1), text.replace(b'"', b'"\xff', 1),
        text.replace(b'"', b'"\\u0000', 1), text.replace(b'"', b'"\\ud800', 1), text.replace(b":", b": 1e999999,", 1),
        b'{"serviceArguments":' + nested(500) + b"}", nested(100_000), b'"' + b"x" * 2_000_000 + b'"',
        b"1" * 4000, b"-", b"{\"a\":NaN}", bytes(range(256))]))


def query_values(schema):
    """Texts of a query parameter, allowed and not."""
    odd = st.one_of(TEXT, ODD_TEXT, st.sampled_from(["-1", "1e3", "18446744073709551616", "TRUE", "0x1"]))
    if "enum" in schema:
        return st.one_of(st.sampled_from(schema["enum"]), odd)
    if schema.get("type") == "integer":
        low, high = schema.get("minimum", 0), schema.get("maximum", 2**64 - 1)
        return st.one_of(st.integers(low, high).map(str), st.sampled_from([str(low), str(high), str(high + 1)]), odd)
    if schema.get("type") == "boolean":
        return st.one_of(st.sampled_from(["true", "false"]), odd)
    return odd
