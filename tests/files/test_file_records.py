"""The records of files of all kinds: docs/formats.md, "Files"."""

import bz2
import gzip
import io
import json
import lzma

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark import ConfigurationError, avro, csv
from tidemark.files.content import open_content
from tidemark.files.records import file_records
from tidemark.serde.formats.source_format import (
    JSON,
    AvroFormat,
    BytesFormat,
    CloudEventsFormat,
    CsvFormat,
    DebeziumFormat,
    TextFormat,
)

TABLE = CsvFormat(("id", "name"))


def records(content, format_=JSON):
    return list(file_records(io.BytesIO(content), format_, "f"))


@pytest.mark.parametrize("format_", [JSON, DebeziumFormat("json"), CloudEventsFormat()])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"a":1}\n{"a":2}\n', [b'{"a":1}', b'{"a":2}']),
        (b'{"a":1}\n\nnot JSON\n{"a":\n2}', [b'{"a":1}', b"", b"not JSON", b'{"a":', b"2}"]),
        (b'not JSON\n{"a":1}', [b"not JSON", b'{"a":1}']),
        (b'\n{"a":1}\n', [b"", b'{"a":1}']),
        (b"\n \n", [b"", b" "]),
        (b"", []),
        (b'{\n "a": 1\n}\n', [b'{\n "a": 1\n}']),
        (b'{\n "a": "}"\n}\n{\n "a": "\\"{"\n}\n', [b'{\n "a": "}"\n}', b'{\n "a": "\\"{"\n}']),
        (b'{"a":1}{"a":2}\n{"a":3}', [b'{"a":1}', b'{"a":2}', b'{"a":3}']),
        (b'\x1e{"a":1}\n\x1e{"a":2}\n', [b'\x1e{"a":1}', b'\x1e{"a":2}']),
        (b'[{"a":1},{"a":[2]}]', [b'{"a":1}', b'{"a":[2]}']),
        (b'[{"a":1},{"a":2}]\n\n', [b'{"a":1}', b'{"a":2}']),
        (b'[\n  {"a": 1},\n  {"a": NaN}\n]\n', [b'{"a": 1}', b'{"a": "NaN"}']),
        (b'[{"a":1}]\n[{"a":2}]\n', [b'[{"a":1}]', b'[{"a":2}]']),
        (b"[[1],[2]]", [b"[1]", b"[2]"]),
        (b"[1,2]", [b"[1,2]"]),
        (b"[]", [b"[]"]),
        (b'{\n"a":1\n}\nodd\n{\n"a":2\n}', [b'{\n"a":1\n}', b"odd", b'{\n"a":2\n}']),
        (b'{\n"a":1\n}\n{"a":', [b'{\n"a":1\n}', b'{"a":']),
        (b'{"a":\n{"a":1}\n', [b'{"a":', b'{"a":1}']),
        (b"[main] started\n[main] stopped", [b"[main] started", b"[main] stopped"]),
    ],
)
def test_documents_in_lines_or_over_several_lines(content, format_, expected):
    assert records(content, format_) == expected


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(st.text(max_size=4), documents, min_size=1), min_size=1, max_size=5),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
    st.booleans(),
)
def test_any_objects_are_found_however_they_are_printed(values, indent, is_array, is_ascii):
    def text(value):
        return json.dumps(value, indent=indent, ensure_ascii=is_ascii)

    content = text(values) if is_array else "\n".join(map(text, values))
    found = records(content.encode())
    assert [json.loads(each) for each in found] == values


@pytest.mark.parametrize(
    ("content", "format_", "expected"),
    [
        (b"id,name\n1,a\n2,b\n", TABLE, [b"1,a", b"2,b"]),
        (b"1,a\n2,b\n", TABLE, [b"1,a", b"2,b"]),
        (b"id,name\r\n1,a\r\n", TABLE, [b"1,a\r"]),
        (b'id,name\n1,"a\nb"\n2,"c""\n\nd"\n', TABLE, [b'1,"a\nb"', b'2,"c""\n\nd"']),
        (b'id,name\n1,5" pipe\n2,b\n', TABLE, [b'1,5" pipe', b"2,b"]),
        (b"id;name\n1;a\n", csv(header=True, delimiter=";"), [b"id;name\n1;a"]),
        (b"#fields\tid\tname\n#types\tint\tstring\n1\ta\n#close\n", TABLE, [b"1\ta"]),
        (b"#id,name\n1,a\n#2,b\n", csv(["#id", "name"]), [b"1,a", b"#2,b"]),
        (b",name,name\n0,a,b\n", csv(["column_1", "name", "name_2"]), [b"0,a,b"]),
        (b"", TABLE, []),
        (b"\xff,a\n", TABLE, [b"\xff,a"]),
        (b"{\n}\n", TextFormat(), [b"{", b"}"]),
    ],
)
def test_rows_and_lines(content, format_, expected):
    assert records(content, format_) == expected


SENSOR = {
    "type": "record",
    "name": "Sensor",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "cost",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        },
    ],
}
PLAIN = {
    "type": "record",
    "name": "Sensor",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": "long"},
        {"name": "cost", "type": "bytes"},
    ],
}


def container(codec="deflate"):
    written = io.BytesIO()
    rows = [{"id": f"s{n}", "at": 1_767_225_600_000 + n, "cost": b"\x01"} for n in range(3_000)]
    fastavro.writer(written, PLAIN, rows, codec=codec, metadata={"a": "b"})
    return written.getvalue(), rows


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2"])
def test_a_container_gives_its_records_as_they_are(codec):
    content, rows = container(codec)
    found = records(content, AvroFormat(json.dumps(PLAIN), framed=False))
    assert [fastavro.schemaless_reader(io.BytesIO(each), PLAIN, None) for each in found] == rows
    assert records(content, avro(SENSOR, framed=False)) == found


def test_a_container_of_another_schema_or_damaged_is_refused():
    content, _ = container()
    other = {**PLAIN, "fields": PLAIN["fields"][:2]}
    with pytest.raises(ConfigurationError, match="f: the schema in the file is not that of"):
        records(content, AvroFormat(json.dumps(other), framed=False))
    plain = AvroFormat(json.dumps(PLAIN), framed=False)
    for damaged in (content[:-300], content[:50], b'{"id":"a"}'):
        with pytest.raises(ConfigurationError, match=r"f: .*container file"):
            records(damaged, plain)


@pytest.mark.parametrize(
    "format_", [AvroFormat(), AvroFormat("{}", framed=True), DebeziumFormat("avro"), BytesFormat()]
)
def test_records_of_binary_formats_cannot_be_in_a_file(format_):
    with pytest.raises(ConfigurationError, match="cannot be in a file; try the pipeline with"):
        records(b"", format_)


def opened(path):
    with open_content(str(path), "--input FILE") as content:
        return content.read()


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_files_are_decompressed_and_have_no_byte_order_mark(tmp_path, compress):
    path = tmp_path / "f"
    path.write_bytes(compress(compress(b"\xef\xbb\xbf{}\n")))
    assert opened(path) == b"{}\n"
    path.write_bytes(compress(b"{}\n" * 100)[:-20])
    with pytest.raises(ConfigurationError, match="--input FILE: damaged: "):
        opened(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}".encode("utf-16"), "the text is UTF-16"),
        (b"PK\x03\x04....", "a zip archive or a spreadsheet: unzip it"),
        (b"\x28\xb5\x2f\xfd....", "zstd -dc FILE"),
        (b"PAR1....", "Parquet: python -c"),
    ],
)
def test_contents_of_other_forms_are_refused_with_the_remedy(tmp_path, content, words):
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"^--input FILE: .*{words}"):
        opened(path)


def test_folders_and_missing_files_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"^--input FILE: Is a directory"):
        opened(tmp_path)
    with pytest.raises(ConfigurationError, match=r"^--input FILE: No such file"):
        opened(tmp_path / "none")
