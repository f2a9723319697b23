"""Modules that `tidemark infer` prints: they run over the records that they were made of."""

import json
import re
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.infer.modules import T, half_hours, module_of, of, run
from tests.infer.shapes import SHAPES, lines
from tidemark import ConfigurationError
from tidemark.infer.inference import infer
from tidemark.infer.sample import Sample, SampleRecord
from tidemark.serde.formats.source_format import JSON


@cache
def of_shape(shape):
    return module_of(list(lines(shape)))


def part(text, begin, end):
    return text.split(begin)[1].split(end)[0].strip()


EXPECTED = {
    "github": ('"created_at"', '"iso8601"', '"1s"', '"type"'),
    "cloudevents": ('"time"', '"iso8601"', '"5s"', '"source"'),
    "debezium": ('"__source.ts_ms"', '"ms"', '"1s"', '"id"'),
    "logstash": ('"timestamp"', '"iso8601"', '"5s"', 'host_name="host.name"'),
    "taxi": ('"tpep_pickup_datetime"', '"iso8601"', '"1s"', '"VendorID"'),
    "sensors": ('"ts"', '"s"', '"1s"', '"deviceId"'),
    "access_log": ('"time_local"', '"%d/%b/%Y:%H:%M:%S %z"', '"1s"', '"remote_addr"'),
    "orders": ('"event_time"', '"ms"', '"30s"', 'customer_id="customer.id"'),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_module_for_a_public_shape_runs_without_dead_letters(shape):
    values, text = list(lines(shape)), of_shape(shape)
    ran = run(text, values)
    assert ran.dead_letters == []
    assert "# 200 records = 200 that fit + 0 dead + 0 blank" in text
    (results,) = ran.published.values()
    assert results.tally.late == 0
    assert results.tally.accepted == sum(
        len(each) if isinstance(each := json.loads(value), list) else 1 for value in values
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_time_watermark_and_key_of_a_public_shape(shape):
    text = of_shape(shape)
    found = re.search(
        r'event_time=(.+),\n    unit=(.+),\n(?:    [z#].+\n)*    watermark=bounded\((.+)\),  #[^"]+'
        r"key_by\((.+)\)\.window",
        text,
    )
    assert found is not None, text
    assert found.groups() == EXPECTED[shape]


def test_nested_values_have_types_and_odd_names_have_aliases():
    text = of_shape("orders")
    assert (
        '"items": list[{"sku": str, "qty": int, "price": float, "attrs": {"size": str}}],' in text
    )
    assert '"start": str,' in text
    assert "# no column: 'coupon': always null, in 200 records" in text
    assert '# or: event_time="updatedAt", unit="iso8601"' in text

    text = of_shape("logstash")
    assert '"timestamp": field("@timestamp", str),' in text
    assert '"agent_version": field(["agent.version"], str),' in text

    text = of_shape("sensors")
    assert '"readings": dict[str, float],' in text
    assert '"status": field("status", {"rssi": int, "errors": list[int]}, json=True),' in text
    assert 'field("status", int, lenient=True)' in of_shape("access_log")


def test_records_that_do_not_fit_are_counted():
    records = [
        {"k": "a", "at": f"2026-01-01T00:00:0{n}Z", "user": {"id": n}, "v": n} for n in range(8)
    ] * 4
    values = [json.dumps(record).encode() for record in records]
    values += [b"{", b'{"k":"a","at":"2026-01-01T00:00:09Z","user":"none"}', b"", b'{"k":"a"}']
    text = module_of(values)
    assert part(text, "# 36 records", "records =").splitlines() == [
        "= 32 that fit + 3 dead + 1 blank",
        "# 32 rows = 32 on time + 0 late",
        "#   1 dead from record 33 on: 'not JSON: ends too early (byte 1)'",
        "#   1 dead from record 34 on: 'column user: expected object, got str; is it JSON in text? "
        "field(..., json=True) declares that'",
        "#   1 dead from record 36 on: 'event time at: missing'",
    ]
    assert len(run(text, values).dead_letters) == 3


def test_a_sample_without_a_time_and_without_a_key_gives_a_module_that_runs():
    text = of({"v": 1.5}, {"v": 2.5})
    assert "event_time=INGEST_TIME," in text
    assert "records.key_by()" in text
    assert run(text, [b'{"v":1.5}']).dead_letters == []


def test_disorder_is_that_of_each_partition():
    records = []
    for n in range(100):
        for partition in (0, 1):
            at = 1_767_225_600 + n + partition * 5_000 - (7 if n % 50 == 49 else 0)
            records.append(SampleRecord(json.dumps({"k": "a", "ts": at}).encode(), partition))
    inferred = infer(Sample(JSON, records, has_timestamps=True))
    assert inferred.disorder is not None
    assert (inferred.disorder.delay_ms, inferred.disorder.most_ms) == (10_000, 8_000 - 2_000)


def test_a_place_in_few_records_is_neither_time_nor_key():
    base = {"bn": "urn:dev:1", "bt": 1_767_225_600.5}
    text = of(*[base, {"n": "temp"}] * 10)
    assert 'event_time=INGEST_TIME,\n    # or: event_time="bt", unit="s": 10 would be dead' in text
    assert "records.key_by()" in text
    assert " 20 that fit + 0 dead " in text


def test_an_envelope_has_its_format():
    change = {"before": None, "after": {"id": 1}, "source": {"db": "d"}, "op": "c", "ts_ms": T}
    for record in (change, {"schema": {"type": "struct"}, "payload": change}):
        text = of(record)
        assert '\n    format="debezium-json",\n' in text
        assert '"id": int,' in text
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": {"v": 1}}
    assert '\n    format="cloudevents",\n' in of(event)
    assert "format=" not in of({**event, "specversion": None}, {"op": "c", "source": "s"})


def test_a_value_in_place_of_a_list_that_other_records_wrap_is_dead():
    records = [
        {"rows": [{"k": n % 3, "at": f"{at:%FT%TZ}"}]} for n, at in enumerate(half_hours(40))
    ]
    text = of(*records, {"rows": 5})
    assert '\n    explode="rows",\n    event_time="rows.at",\n' in text
    assert "# 41 records = 40 that fit + 1 dead" in text


def test_items_of_a_list_have_times_of_their_own_beside_members_of_the_record():
    fixes = [{"lat": 0.5, "at": f"{at:%FT%TZ}"} for at in half_hours(40)]
    records = [
        {"device.id": f"d{n % 3}", "sent": n, "track.points": fixes[n : n + 4]}
        for n in range(0, 40, 4)
    ]
    text = of(*records)
    assert '        "device_id": field(["device.id"], str),\n' in text
    assert '        "track_points": field(["track.points"], {"lat": float, "at": str}),\n' in text
    assert '    explode=["track.points"],\n    event_time="track_points.at",\n' in text
    assert 'key_by("device_id").window(tumbling("1h"))' in text
    assert "# 40 rows = 40 on time + 0 late" in text
    own = of(
        *({**each, "at": f"{at:%FT%TZ}"} for each, at in zip(records, half_hours(10), strict=True))
    )
    assert "\n    explode=" not in own
    assert '# The items of "track.points" have a time too: explode= makes rows' in own


def test_members_of_different_kinds_have_no_column():
    records = [{"k": "a", "log_params": {"a": 1} if n % 2 else []} for n in range(10)]
    text = of(*records, {"k": "a", "meta": {"id": None, "x": {}}})
    assert "# no column: 'log_params': 5 objects, 5 lists and 0 other values" in text
    assert "# no column: 'meta': objects without members of a type, in 1 records" in text
    assert "'meta.id'" not in text
    assert " 11 that fit + 0 dead " in text


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ([1, 2.5], "float"),
        ([1, "2", "-", ""], 'field("x", int, lenient=True)'),
        ([1, "2.5"], 'field("x", float, lenient=True)'),
        ([True, 1], 'field("x", str, lenient=True)'),
        ([1, "a"], 'field("x", str, lenient=True)'),
        (["1", "2"], 'field("x", int, lenient=True)'),
        (["1.5", "", "NA"], 'field("x", float, lenient=True)'),
        (["1", "02"], "str"),
        (["1", "18446744073709551616"], "str"),
        (["true", "-"], 'field("x", bool, lenient=True)'),
        ([["1", "2"]], 'field("x", list[int], lenient=True)'),
        ([{"1": {"a": 1}, "2": {"a": 2}, "3": {"a": 3}}], 'dict[str, {"a": int}]'),
        ([2**63, 2**63 + 1], 'field("x", str, lenient=True)'),
        ([2**70, 1], 'field("x", str, lenient=True)'),
        ([2**70, 1.5], "float"),
        (["10.00", "20.00"], 'field("x", float, lenient=True)'),
        ([[1], []], "list[int]"),
        ([[[1]], [[2]]], "list[list[int]]"),
        ([[{"a": 1}]], 'list[{"a": int}]'),
        ([[1, "a"]], 'field("x", list[str], lenient=True)'),
        (['{"a": 1}'], 'field("x", {"a": int}, json=True)'),
        ([['{"a": 1}']], "list[str]"),
        (["[x]"], "str"),
        ([{"a.b": 1}], '{"a.b": int}'),
        ([{f"k{n}{m}": n for m in range(9)} for n in range(9)], "dict[str, int]"),
        (
            [{f"k{n}{m}": "a" if m else n for m in range(9)} for n in range(9)],
            'field("x", dict[str, str], lenient=True)',
        ),
        (['{"a": 1}\n'], 'field("x", {"a": int}, json=True)'),
    ],
)
def test_types_of_values(value, type_):
    text = of(*({"k": "a", "x": each} for each in value))
    assert f'        "x": {type_},\n' in text
    assert "+ 0 dead +" in text


@pytest.mark.parametrize(
    ("values", "words"),
    [([b"{}"], "none of 1 records"), ([b"\xff\x00"], "the content is binary")],
)
def test_a_sample_without_objects_is_refused(values, words):
    with pytest.raises(ConfigurationError, match=words):
        module_of(values)


def test_a_key_whose_name_is_not_an_identifier_has_another_name():
    text = of(*({"a": {"²": f"v{n % 2}"}} for n in range(8)))
    assert 'records.key_by(a__="a.²")' in text


names = st.text(min_size=1, max_size=6) | st.sampled_from(
    ["_key", "@timestamp", "start", "end", "n", "key", "class", "a.b", "*", "^x$", 'q"', "window"]
)
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(names, trees, min_size=1, max_size=4), min_size=1, max_size=5))
def test_any_records_give_a_module_that_counts_what_it_refuses(records):
    values = [json.dumps(record).encode() for record in records]
    try:
        text = module_of(values)
    except ConfigurationError:
        return
    (dead,) = re.findall(r"\+ (\d+) dead \+", text)
    assert len(run(text, values).dead_letters) == int(dead)


def test_lines_fit_where_they_can():
    for shape in SHAPES:
        text = of_shape(shape)
        assert all(len(line) <= 100 for line in text.splitlines()), text
        assert all(not (a == b == "") for a, b in pairwise(text.splitlines()))


def test_json_behind_the_id_of_a_schema_is_read_without_a_registry():
    values = [b"\0\0\0\0\x07" + value for value in lines("orders")]
    text = module_of(values)

    assert '    format="json-schema",\n' in text
    assert run(text, values).dead_letters == []


def test_a_text_that_is_always_empty_has_no_comment():
    assert "comma" not in of(*({"at": T + n * 1000, "note": "", "user": "a"} for n in range(20)))


def test_a_value_that_all_records_share_is_a_key_only_by_its_name():
    records = [{"at": T + n * 1000, "version": "2.0"} for n in range(30)]

    assert "key_by()" in of(*records)
    assert 'key_by("sensor")' in of(*({**each, "sensor": "a"} for each in records))
