"""The OpenAPI document of a running gateway, and whether an answer is one that it declares.

    from described import Document
    document = Document(json.loads(exchange(api, "GET", DOCUMENT_PATH).body))
    document.check("GET", "/netlox/v1/version", reply)      # AssertionError says what is undeclared

Every answer of the management interface that an end-to-end test gets goes through check() (see
gateway.py), so the document cannot say something else than the gateway does.
"""

import json
import re
import urllib.parse

import jsonschema

DOCUMENT_PATH = "/netlox/v1/openapi.json"
METHODS = ("get", "put", "post", "delete", "patch")
# What a path answers before it is known which operation is meant.
ANY_PATH = {401, 403, 429, 400, 408, 421}


class Operation:
    """One method of one path."""

    def __init__(self, document, path, method, body):
        self.document = document
        self.path = path
        self.method = method.upper()
        self.body = body
        self.id = body["operationId"]
        self.parameters = body.get("parameters", [])
        self.is_absent = body.get("x-sluice-absent", False)
        self.is_public = body.get("security") == []

    @property
    def statuses(self):
        return {int(s) for s in self.body["responses"]}

    def answer(self, status):
        """The declared answer of that status; None when it is not declared."""
        found = self.body["responses"].get(str(status))
        return self.document.resolved(found) if found else None

    def body_schema(self):
        """The JSON Schema of what it takes; None when it takes no JSON."""
        content = self.body.get("requestBody", {}).get("content", {})
        return content.get("application/json", {}).get("schema")

    def __repr__(self):
        return self.id


class Document:
    def __init__(self, root):
        self.root = root
        self.operations = []
        self._patterns = []
        for path, item in root["paths"].items():
            self._patterns.append((pattern_of(path), path))
            for method in METHODS:
                if method in item:
                    self.operations.append(Operation(self, path, method, item[method]))
        # Words before names: /all is not an {id}.
        self._patterns.sort(key=lambda p: p[1].count("{"))
        self.codes = {row["code"]: row["statuses"] for row in
                      root["components"]["schemas"]["Error"]["x-sluice-codes"]}
        # Of a request that is refused before its path is looked at.
        self.before_paths = set(root.get("x-sluice-before-paths", []))
        self._resolver = jsonschema.RefResolver("", root)
        self._validators = {}

    def resolved(self, node):
        """`node`, or what it refers to."""
        while "$ref" in node:
            node = self._resolver.resolve(node["$ref"])[1]
        return node

    def paths_of(self, target):
        """The declared paths that a request target may be of, the most exact first."""
        bare = target.split("?", 1)[0]
        return [path for pattern, path in self._patterns if pattern.fullmatch(bare)]

    def find(self, method, target):
        """The operation of a request; None when there is none."""
        wanted = "get" if method == "HEAD" else method.lower()
        for path in self.paths_of(target):
            if wanted in self.root["paths"][path]:
                return next(o for o in self.operations
                            if o.path == path and o.method.lower() == wanted)
        return None

    def validator(self, schema):
        key = json.dumps(schema, sort_keys=True)
        if key not in self._validators:
            self._validators[key] = jsonschema.Draft202012Validator(schema, resolver=self._resolver)
        return self._validators[key]

    def faults_of(self, schema, value):
        return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:300]}"
                for e in self.validator(schema).iter_errors(value)]

    def check(self, method, target, reply):
        """Fails unless the reply is one that the document declares for this request."""
        where = f"{method} {target[:200]}: {reply.status}"
        operation = self.find(method, target)
        if operation is None:
            self._check_strange(method, target, reply, where)
            return
        answer = operation.answer(reply.status)
        if answer is None and reply.status in self.before_paths:
            answer = self.root["components"]["responses"][str(reply.status)]
        assert answer is not None, f"{where} is not declared ({sorted(operation.statuses)})"
        self._check_body(method, answer.get("content"), reply, where)

    def _check_strange(self, method, target, reply, where):
        if method == "OPTIONS" and reply.status == 204:
            return  # a page of an allowed origin asks what it may
        known = self.paths_of(target)
        wanted = ANY_PATH | self.before_paths | ({405} if known else {404})
        assert reply.status in wanted, f"{where}, expected one of {sorted(wanted)}"
        if reply.status == 405:
            allowed = {m.strip() for m in reply.header("Allow").split(",")}
            declared = {m.upper() for path in known for m in METHODS if m in self.root["paths"][path]}
            declared |= {"HEAD"} if "GET" in declared else set()
            assert allowed == declared, f"{where}: Allow is {allowed}, declared is {declared}"
        refers = {"$ref": "#/components/schemas/Error"}
        self._check_body(method, {"application/json": {"schema": refers}}, reply, where)

    def _check_body(self, method, content, reply, where):
        if not content:
            assert reply.body == b"", f"{where}: a body where none is declared"
            return
        kind = (reply.header("Content-Type") or "").split(";")[0]
        assert kind in content, f"{where}: Content-Type {kind}, declared is {list(content)}"
        if method == "HEAD" or kind != "application/json":
            return
        body = json.loads(reply.body)
        faults = self.faults_of(content[kind]["schema"], body)
        assert not faults, f"{where}: {faults}"
        if isinstance(body, dict) and content[kind]["schema"].get("$ref", "").endswith("/Error"):
            statuses = self.codes.get(body["code"])
            assert statuses is not None, f"{where}: the code {body['code']} is not listed"
            assert reply.status in statuses, f"{where}: {body['code']} is listed with {statuses}"


def pattern_of(path):
    """The expression of the targets of a path template; a segment holds one name at most."""
    parts = [r"[^/]+" if part.startswith("{") else re.escape(part) for part in path.split("/")]
    return re.compile("/".join(parts))


def fill(path, values):
    """The path template with its names replaced; values are escaped."""
    for name, value in values.items():
        path = path.replace("{" + name + "}", urllib.parse.quote(str(value), safe=""))
    return path
