"""`tidemark infer FILE > p.py && tidemark try p.py --input FILE`, for files of all kinds."""

import json
import re

import pytest

from tests.infer.excerpts import COUNT, FILES
from tidemark import ConfigurationError
from tidemark.commands.cli import app


def command(capsysbinary, *arguments):
    assert not app(arguments, standalone_mode=False)
    return capsysbinary.readouterr()


ISO, SECONDS = '"iso8601"', '"s"'
TIMES = {
    "changes.json.gz": ('"timestamp"', SECONDS),
    "trades.jsonl.xz": ('"T"', '"ms"'),
    "concatenated.json": ('"timestamp"', SECONDS),
    "taxi.csv": ('"tpep_pickup_datetime"', ISO),
    "orders.csv": ('"Order Date"', '"%m/%d/%Y %I:%M:%S %p"'),
    "weather.tsv": (
        '(col("date") + " " + col("time"))\n    .str.to_datetime("%d.%m.%Y %H:%M", ',
        None,
    ),
    "conn.log": ('"ts"', SECONDS),
    "iis.log": (
        '(col("date") + " " + col("time"))\n    .str.to_datetime("%Y-%m-%d %H:%M:%S", ',
        None,
    ),
    "access.log": ('col("line")', None),
    "syslog.log": ("INGEST_TIME", None),
    "debezium.json": ('"__source.ts_ms"', '"ms"'),
    "events.json": ('"time"', ISO),
    "trail.json": ('"Records.eventTime"', ISO),
    "spans.jsonl": ('"resourceSpans.scopeSpans.spans.startTimeUnixNano"', '"ns"'),
    "metrics.jsonl": ('"at.$date"', ISO),
    "mixed.jsonl": ('"when"', '["iso8601", "rfc2822", "epoch", "%d/%b/%Y:%H:%M:%S %z"]'),
    "digits.jsonl": ('"DATEADDED"', '"%Y%m%d%H%M%S"'),
    "net.jsonl": ('col("at").str.extract(r"^/Date\\(([0-9]{9,14})").cast(pl.Int64)', None),
    "jackson.jsonl": ("pl.datetime(", None),
    "newest.jsonl": ('"published"', ISO),
    "sensors.avro": ('"at"', '"us"'),
}
UNDERSCORES = str.maketrans("-.", "__")
KEYS = {
    "changes.json.gz": '"user"',
    "trades.jsonl.xz": '"s"',
    "concatenated.json": '"user"',
    "taxi.csv": '"VendorID"',
    "orders.csv": '"Customer Name"',
    "weather.tsv": '"station"',
    "conn.log": '"id_orig_h"',
    "iis.log": '"c-ip"',
    "access.log": ")",
    "syslog.log": ")",
    "debezium.json": '"country"',
    "events.json": '"source"',
    "trail.json": 'Records_eventName="Records.eventName"',
    "spans.jsonl": 'resourceSpans_scopeSpans_spans_name="resourceSpans.scopeSpans.spans.name"',
    "metrics.jsonl": '"device"',
    "mixed.jsonl": '"user"',
    "digits.jsonl": '"code"',
    "net.jsonl": '"user"',
    "jackson.jsonl": '"user"',
    "newest.jsonl": '"actor"',
    "sensors.avro": '"id"',
}


@pytest.mark.parametrize("name", FILES)
def test_the_printed_module_runs_over_the_file(name, tmp_path, monkeypatch, capsysbinary):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(FILES[name])
    printed = command(capsysbinary, "infer", name)
    made = f"p_{name.translate(UNDERSCORES)}.py"  # the process keeps modules by name
    (tmp_path / made).write_bytes(printed.out)
    text = printed.out.decode()
    assert " fit + 0 dead + 0 blank\n" in text
    assert " on time + 0 late\n" in text
    event_time, unit = TIMES[name]
    assert f"\n    event_time={event_time}" in text
    assert unit is None or f"\n    unit={unit}," in text
    assert f"key_by({KEYS[name]}" in text

    tried = command(capsysbinary, "try", made, "--input", name)
    wraps = name in ("trail.json", "spans.jsonl")
    if not wraps:
        assert f"{COUNT} records = {COUNT} passed + 0 filtered + 0 dead".encode() in tried.err
    results = [json.loads(line)["value"] for line in tried.out.splitlines()]
    assert sum(each["n"] for each in results) == COUNT * (1 + (name == "spans.jsonl"))


def module(name, tmp_path, capsysbinary):
    (tmp_path / name).write_bytes(FILES[name])
    return command(capsysbinary, "infer", str(tmp_path / name)).out.decode()


def test_texts_of_numbers_maps_and_reserved_names_have_types(tmp_path, capsysbinary):
    trades = module("trades.jsonl.xz", tmp_path, capsysbinary)
    assert '"p": field("p", float, lenient=True),' in trades
    assert '"b": field("b", list[list[float]], lenient=True),' in trades
    metrics = module("metrics.jsonl", tmp_path, capsysbinary)
    assert '"metrics": dict[str, float],' in metrics
    assert '"peers": dict[str, {"ok": bool, "lag": int}],' in metrics
    assert '"start": int,' in metrics
    assert '"key": field("_key", str),' in metrics
    assert '"zip": str,' in metrics
    changes = module("changes.json.gz", tmp_path, capsysbinary)
    assert '"id": int,  # null in 14' in changes
    assert "# no column: 'log_params': 20 objects, 20 lists and 0 other values" in changes


def test_columns_of_csv_have_types(tmp_path, capsysbinary):
    orders = module("orders.csv", tmp_path, capsysbinary)
    for line in ('"Order ID": int,', '"Amount (USD)": float,', '"Paid": bool,', '"Zip": str,'):
        assert f"        {line}\n" in orders
    assert '        "key": field("_key", int),\n' in orders
    assert 'zone="UTC",  # a guess: the times have no offset' in orders
    taxi = module("taxi.csv", tmp_path, capsysbinary)
    assert '        "fare": float,\n' in taxi
    zeek = module("conn.log", tmp_path, capsysbinary)
    assert (
        'format=csv(["ts", "uid", "id.orig_h", "service", "duration"], delimiter=\'\\t\'),' in zeek
    )


def test_numbers_of_csv_keep_their_digits_in_ids_and_take_a_fraction(tmp_path, capsysbinary):
    path = tmp_path / "prices.csv"
    path.write_text(
        "station_id,line_id,at,price\n"
        "6140.1,7,2026-03-01T12:00:00Z,10.00\n6140.10,8,2026-03-01T12:01:00Z,20.00\n"
    )
    text = command(capsysbinary, "infer", str(path)).out.decode()
    for line in ('"station_id": str,', '"line_id": int,', '"price": float,'):
        assert f"        {line}\n" in text


def test_comments_name_what_a_reader_should_know(tmp_path, capsysbinary):
    assert "records are in descending order" in module("newest.jsonl", tmp_path, capsysbinary)
    assert '    explode="Records",\n' in module("trail.json", tmp_path, capsysbinary)
    assert "Columns come from patterns" in module("syslog.log", tmp_path, capsysbinary)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "there are no records"),
        (b"\n \n", "there are no records"),
        ("a,b\n1,2\n".encode("utf-16"), "the text is UTF-16"),
        ("M\xfcller,2\n".encode("latin-1") * 9, "iconv -f ENCODING -t UTF-8"),
        (bytes(range(256)) * 20, "the content is binary"),
        (b"[[1,2],[3,4]]", "none of 2 records is an object"),
        (b'["3c6444","DLH",50.0]\n["3c6445","DLH",51.0]\n', "the records are arrays without names"),
        (
            b'[{"at":"2026-03-01T12:00:00Z"},{"at":\n\n',
            "the array that begins the file has no end; the file stops after",
        ),
        (
            b'[\n{"at":"2026-03-01T12:00:00Z"},\n{"at":"2026-03-01T12:00:01Z"},\n{"at":',
            "the array that begins the file has no end; the file stops after '{\"at\":'",
        ),
        (b"Obj\x01damaged", "not a container file of Avro"),
        (b"PK\x03\x04.....", "unzip it"),
    ],
)
def test_files_that_cannot_be_read_are_refused(content, words, tmp_path):
    path = tmp_path / "odd.dat"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"^infer.*{re.escape(words)}"):
        app(["infer", str(path)], standalone_mode=False)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"^infer .*: Is a directory"):
        app(["infer", str(tmp_path)], standalone_mode=False)
