"""``tidemark schemas``: files of result schemas, up to date, changed only compatibly."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidemark.commands.cli import app
from tidemark.commands.schemas import as_text, result_schemas
from tidemark.language.load import load_pipeline
from tidemark.serde.schema_compatibility import breaking_changes

ROOT = Path(__file__).parents[2]
PIPELINE = """
from tidemark import Pipeline, bounded, count, sum, tumbling
pipeline = Pipeline("p")
rows = pipeline.source("t", schema={"k": str, "at": int, "v": %s}, event_time="at",
                       watermark=bounded("2s"))
rows.key_by("k").window(tumbling("10s")).aggregate(%s).to("out")
"""


@pytest.mark.parametrize("example", ["game", "hashtags", "sensors"])
def test_the_schemas_of_examples_are_up_to_date(example):
    """If not: ``tidemark schemas examples.NAME --output schemas/examples``."""
    for topic, schema in result_schemas(load_pipeline(f"examples.{example}").plan()).items():
        file = ROOT / "schemas" / "examples" / f"{topic}.avsc"
        assert file.read_text(encoding="utf-8") == as_text(schema), topic


def test_no_schema_of_examples_is_left_over():
    topics = {
        topic
        for example in ("game", "hashtags", "sensors")
        for topic in result_schemas(load_pipeline(f"examples.{example}").plan())
    }
    assert {file.stem for file in (ROOT / "schemas" / "examples").iterdir()} == topics


@pytest.fixture
def run(tmp_path):
    numbers = count()

    def run(kind: str, aggregates: str, *options: str) -> tuple[int, str]:
        module = tmp_path / f"{tmp_path.name}_{next(numbers)}.py"  # loaded once
        module.write_text(PIPELINE % (kind, aggregates))
        output = ["--output", str(tmp_path / "schemas")]
        result = CliRunner().invoke(
            app, ["schemas", str(module), *output, *options], standalone_mode=False
        )
        return result.return_value, result.output

    return run


def test_files_are_written_checked_and_changed(run, tmp_path):
    assert run("int", "n=count()", "--check")[0] == 1
    code, said = run("int", "n=count()")
    assert (code, said.count("wrote ")) == (0, 2)
    assert run("int", "n=count()", "--check") == (0, "nothing has changed\n")
    assert run("int", "n=count(), v=sum('v')", "--check")[0] == 1
    code, said = run("int", "n=count(), v=sum('v')")
    assert (code, said.count("replaced ")) == (0, 1)
    names = [f["name"] for f in json.loads((tmp_path / "schemas/p.out.avsc").read_text())["fields"]]
    assert names[-2:] == ["n", "v"]


def test_a_change_that_breaks_readers_is_refused_unless_it_is_wanted(run):
    assert run("float", "v=sum('v')")[0] == 0
    code, said = run("int", "v=sum('v')")
    assert code == 1
    assert "p.out.avsc: breaks readers of the old schema: v: decimal is none of null/double" in said
    assert run("int", "v=sum('v')", "--incompatible")[0] == 0
    assert run("int", "v=sum('v')", "--check")[0] == 0


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": list(fields)}


def field(name: str, kind: object, **others: object) -> dict[str, Any]:
    return {"name": name, "type": kind, **others}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (record(field("a", "int")), record(field("a", "int"))),
        (record(), record(field("a", ["null", "int"], default=None))),
        (record(field("a", "int", default=0)), record()),
        (record(field("a", "string")), record(field("a", "bytes"))),
        (
            record(field("a", record(field("b", "int")))),
            record(field("a", record(field("b", "int"), field("c", "int", default=1)))),
        ),
    ],
)
def test_a_compatible_change_breaks_nobody(old, new):
    assert breaking_changes(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "broken"),
    [
        (record(), record(field("a", "int")), ["new schema: a is missing and has no default"]),
        (record(field("a", "int")), record(), ["old schema: a is missing and has no default"]),
        (record(field("a", "int")), record(field("a", "long")), ["old schema: a: long is no int"]),
        (
            record(field("a", ["null", "int"])),
            record(field("a", "int")),
            ["new schema: a: null is no int"],
        ),
        (
            record(field("a", {"type": "array", "items": "int"})),
            record(field("a", {"type": "array", "items": "double"})),
            ["old schema: a[]: double is no int"],
        ),
        (
            record(field("a", {"type": "bytes", "logicalType": "decimal", "precision": 9})),
            record(field("a", {"type": "bytes", "logicalType": "decimal", "precision": 8})),
            ["new schema: a: decimal is no decimal", "old schema: a: decimal is no decimal"],
        ),
        (
            record(field("a", {"type": "enum", "name": "e", "symbols": ["x"]})),
            record(field("a", {"type": "enum", "name": "e", "symbols": ["x", "y"]})),
            ["old schema: a: no symbols y"],
        ),
    ],
)
def test_an_incompatible_change_says_what_and_for_whom(old, new, broken):
    assert breaking_changes(old, new) == [f"readers of the {each}" for each in broken]
