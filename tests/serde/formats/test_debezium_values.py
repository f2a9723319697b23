"""Changes of Debezium: with the schema and without, all operations, tombstones."""

import json

import pytest

from tidemark.serde.formats.debezium_values import DebeziumValues
from tidemark.serde.formats.value_decoder import UnreadableValueError

BEFORE, AFTER = {"id": 1, "qty": 2}, {"id": 1, "qty": 3}
SOURCE = {"ts_ms": 1_767_225_601_000, "db": "shop", "table": "orders"}
CHANGES = DebeziumValues.in_json()


def change(op, before=None, after=None, **others):
    return {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 5, **others}


def decoded(value, key=None):
    return CHANGES.decode(json.dumps(value).encode(), key)


@pytest.mark.parametrize("with_schema", [False, True])
@pytest.mark.parametrize(
    ("op", "before", "after", "row"),
    [
        ("c", None, AFTER, AFTER),
        ("r", None, AFTER, AFTER),
        ("u", BEFORE, AFTER, AFTER),
        ("u", None, AFTER, AFTER),
        ("d", BEFORE, None, BEFORE),
        ("t", None, None, {}),
        ("m", None, None, {}),
    ],
)
def test_a_change_is_the_row_after_it_or_before_a_deletion(with_schema, op, before, after, row):
    value = change(op, before, after)
    if with_schema:
        value = {"schema": {"type": "struct"}, "payload": value}
    assert decoded(value) == {
        **row,
        "__op": op,
        "__deleted": op == "d",
        "__ts_ms": 5,
        "__source": SOURCE,
        "__before": before,
        "__transaction": None,
    }


@pytest.mark.parametrize("key", [b'{"id":1}', b'{"schema":{},"payload":{"id":1}}'])
def test_a_deleted_row_that_was_not_logged_has_its_key(key):
    row = decoded(change("d"), key)
    assert (row["id"], row["__deleted"]) == (1, True)
    assert "id" not in decoded(change("d"))


def test_documents_of_mongodb_are_texts():
    row = decoded(change("c", None, json.dumps(AFTER)))
    assert (row["id"], row["qty"]) == (1, 3)


@pytest.mark.parametrize("value", [None, {"schema": None, "payload": None}])
def test_a_tombstone_in_an_envelope_is_blank(value):
    assert decoded(value) == []


@pytest.mark.parametrize("value", [b"", b" \n"])
def test_white_space_is_blank(value):
    assert CHANGES.decode(value) == []


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"id": 1}, "op is None, not one of c, u, d, r, t, m"),
        ([], "op is None"),
        (change("x", None, AFTER), "op is 'x'"),
        (change("c", None, [1]), "after is not an object"),
        (change("c", None, "{"), "not JSON"),
        (change(["c"]), r"op is \['c'\]"),
    ],
)
def test_what_is_no_change_is_a_reason(value, why):
    with pytest.raises(UnreadableValueError, match=why):
        decoded(value)
