-- A database as schema version 1 wrote it: two rules (one edited, an endpoint of it given up), a
-- deleted one, a setting, the audit trail of it all. Read by tests/unit/state/migration_test.cpp.
PRAGMA application_id = 1397511497;
PRAGMA user_version = 1;
CREATE TABLE rule (
    number      INTEGER PRIMARY KEY CHECK (number > 0),
    id          TEXT NOT NULL UNIQUE,
    generation  INTEGER NOT NULL,
    body        TEXT NOT NULL,
    next_ep_idx INTEGER NOT NULL
) STRICT;
CREATE TABLE endpoint (
    id     INTEGER PRIMARY KEY CHECK (id > 0),
    rule   INTEGER NOT NULL REFERENCES rule (number) ON DELETE CASCADE,
    ep_idx INTEGER NOT NULL,
    ip     TEXT NOT NULL,
    port   INTEGER NOT NULL,
    role   INTEGER NOT NULL,
    UNIQUE (rule, ep_idx),
    UNIQUE (rule, ip, port, role)
) STRICT;
CREATE TABLE counter (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us   INTEGER NOT NULL,
    who     TEXT NOT NULL,
    origin  TEXT NOT NULL,
    action  TEXT NOT NULL,
    subject TEXT NOT NULL,
    before  TEXT NOT NULL,
    after   TEXT NOT NULL
) STRICT;
INSERT INTO rule VALUES
    (1, 'chat', 2, '{"endpoints":[{"endpointIP":"10.0.0.2","targetPort":8000,"weight":1}],"serviceArguments":{"externalIP":"127.0.0.1","mode":4,"name":"é","port":8080,"protocol":"tcp"}}', 2),
    (3, 'b0b2a8ce-3c1b-4a0e-9f4e-6e6a1d3a7c55', 1, '{"endpoints":[{"endpointIP":"fd00::7","targetPort":8001,"weight":1}],"serviceArguments":{"externalIP":"::1","mode":4,"port":8081,"protocol":"tcp"}}', 1);
INSERT INTO endpoint VALUES (2, 1, 1, '10.0.0.2', 8000, 0), (4, 3, 0, 'fd00::7', 8001, 0);
INSERT INTO counter VALUES ('next_rule_number', 4), ('next_endpoint_id', 5);
INSERT INTO setting VALUES ('prometheus', 'off');
INSERT INTO audit (at_us, who, origin, action, subject, before, after) VALUES
    (1738324800000000, 'ann', '127.0.0.1', 'rule.create', 'chat', '', '{"first":"é"}'),
    (1738324801000000, 'ann', '127.0.0.1', 'rule.replace', 'chat', '{"first":"é"}', '{"second":1}'),
    (1738324802000000, 'bob', '::1', 'rule.create', 'gone', '', '{}'),
    (1738324803000000, 'bob', '::1', 'rule.delete', 'gone', '{}', ''),
    (1738324804000000, 'bob', '::1', 'setting.set', 'prometheus', '', 'off');
