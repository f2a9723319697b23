"""The key of a log as a user types it."""

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from tidemark.core.rows.keys import partitions_of
from tidemark.errors import ConfigurationError
from tidemark.plan.physical import LogPlan

EXAMPLE = "text as it is, another value as JSON, and several columns as a JSON array"


def typed_key(text: str, columns: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return a key as a frame of one row.

    Raises:
        ConfigurationError: the text is no key of these columns.
    """
    types = list(columns.values())
    if not types:
        raise ConfigurationError(f"--key {text!r}: the rows have no key")
    values = [text] if types == [pl.String()] else _values(text, len(types))
    try:
        return pl.DataFrame(
            [
                pl.Series(name, [value]).cast(dtype, strict=True)
                for (name, dtype), value in zip(columns.items(), values, strict=True)
            ]
        )
    except (pl.exceptions.PolarsError, TypeError) as error:
        shown = ", ".join(f"{name} {dtype}" for name, dtype in columns.items())
        line = str(error).splitlines()[0]
        raise ConfigurationError(f"--key {text!r} is not of {shown}: {line}") from None


def _values(text: str, count: int) -> list[Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = None
    values = [found] if count == 1 else found
    if found is None or not isinstance(values, list) or len(values) != count:
        raise ConfigurationError(f"--key {text!r} is not {count} values: write {EXAMPLE}")
    return values


def partition_of(key: pl.DataFrame, log: LogPlan) -> int:
    """Return the partition of a log that has the rows of a key."""
    return int(partitions_of(key, key.columns, log.partitions)[0])


def with_key(rows: pl.DataFrame, key: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a key, in order."""
    return rows.filter(*(pl.col(name).eq_missing(pl.lit(key[name])) for name in key.columns))
