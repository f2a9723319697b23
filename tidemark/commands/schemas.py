"""``tidemark schemas``: writes the Avro schemas of a pipeline's results to files to check in.

They describe the values of result and late topics, whether these are Avro or JSON.  An existing
file is replaced only by a compatible schema.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemark.commands.options import PipelineArgument
from tidemark.errors import PipelineError
from tidemark.language.load import load_pipeline
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.serde.avro_results import record_schema
from tidemark.serde.schema_compatibility import breaking_changes


def schemas(
    pipeline: PipelineArgument,
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Folder of the files.")
    ] = Path("schemas"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit status 1 if a file would change.")
    ] = False,
    incompatible: Annotated[
        bool, typer.Option("--incompatible", help="Replace files even if that breaks readers.")
    ] = False,
) -> int:
    """Write the Avro schemas of a pipeline's results, one file TOPIC.avsc per topic."""
    changed = broken = 0
    for topic, schema in result_schemas(load_pipeline(pipeline).plan()).items():
        file, text = output / f"{topic}.avsc", as_text(schema)
        before = file.read_text(encoding="utf-8") if file.exists() else None
        if before == text:
            continue
        changed += 1
        faults = [] if before is None else breaking_changes(json.loads(before), schema)
        for fault in faults:
            typer.echo(f"{file}: breaks {fault}", err=True)
        if check or (faults and not incompatible):
            broken += 1
            typer.echo(f"{file} is {'missing' if before is None else 'out of date'}", err=True)
            continue
        output.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        typer.echo(f"{'wrote' if before is None else 'replaced'} {file}")
    if not changed:
        typer.echo("nothing has changed")
    return int(broken > 0)


def result_schemas(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return the schemas of result and late topics that Avro can describe, by topic.

    Raises:
        PipelineError: a column of Avro results has a type that Avro does not have.
    """
    found: dict[str, dict[str, Any]] = {}
    for operator in plan.operators:
        found |= _of_operator(operator)
    return found


def _of_operator(plan: OperatorPlan) -> Mapping[str, dict[str, Any]]:
    try:
        return {each.topic: record_schema(each.topic, each.port) for each in plan.published}
    except PipelineError:
        if plan.results.format == "avro":
            raise
        return {}  # JSON may hold what Avro does not know


def as_text(schema: dict[str, Any]) -> str:
    """Return the text of a schema file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
