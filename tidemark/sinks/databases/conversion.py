"""How the values of a column become those of an existing column of another type, exactly.

See docs/sinks.md, "Existing tables".  No value is cut or rounded.  A row with a value that the type
cannot hold is refused.  A column whose type can hold no value of the output is refused at the
start.

A float counts as the decimal that its record shows, its shortest text.  So numeric(10,2)
holds 0.1 and does not hold 0.125.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from tidemark.core.rows.schema import INSTANT

Problem = tuple[str, pl.Expr]
"""A reason, and which rows have it."""

_TYPE = re.compile(
    r"(?P<name>[a-z0-9_ ]+?)\s*(\(\s*(?P<size>\d+)\s*(,\s*(?P<scale>\d+)\s*)?\))?"
    r"(?P<zone> with(out)? time zone)?"
)
_TEXTS = {"text", "character varying", "varchar", "nvarchar", "string", "clob", "citext"}
_CHARACTERS = {"character", "char", "bpchar", "nchar"}
_INTEGERS = {
    "tinyint": (-(2**7), 2**7 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "integer": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
    "hugeint": (-(2**127), 2**127 - 1),
    "utinyint": (0, 2**8 - 1),
    "usmallint": (0, 2**16 - 1),
    "uinteger": (0, 2**32 - 1),
    "ubigint": (0, 2**64 - 1),
}
_POLARS: Mapping[pl.DataType, str] = {
    pl.Int8(): "tinyint",
    pl.Int16(): "smallint",
    pl.Int32(): "integer",
    pl.Int64(): "bigint",
    pl.UInt8(): "utinyint",
    pl.UInt16(): "usmallint",
    pl.UInt32(): "uinteger",
    pl.UInt64(): "ubigint",
}
_DECIMALS = {"numeric", "decimal"}
_DOUBLES = {"double precision", "double"}
_REALS = {"real", "float"}
_INSTANTS = {"timestamp with time zone", "timestamp without time zone", "timestamp", "timestamp_ms"}
_SECONDS = "timestamp_s"
_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_DAY_MS = 86_400_000
_LONGEST_INTEGER = 38


@dataclass(frozen=True)
class Declared:
    """The type of a column, as a database names it: ``numeric(10,2)`` has size 10 and scale 2."""

    name: str
    size: int | None = None
    scale: int = 0


@dataclass(frozen=True)
class Rules:
    """What differs between databases.

    ``aliases``: the names of types that stand for others.  ``digits``: the most digits of a
    decimal, None without a limit.  ``texts``: the database keeps instants, days, decimals and JSON
    as texts.
    ``zones``: a timestamp without zone takes only values without zone.
    """

    aliases: Mapping[str, str]
    digits: int | None = None
    texts: bool = False
    zones: bool = False


@dataclass(frozen=True)
class Conversion:
    """``type``: of the database's column.  ``value``: what is sent.  ``problems``: of the value."""

    type: str
    value: pl.Expr
    problems: tuple[Problem, ...] = ()


def conversion(
    name: str, dtype: pl.DataType, declared: str, rules: Rules, *, is_json: bool = False
) -> Conversion | None:
    """Return how a column's values become those of a declared type; None if they never can.

    ``is_json``: the texts of the column are JSON.
    """
    parsed = parse(declared, rules)
    column = pl.col(name)
    if parsed is None:
        return None
    if dtype.is_integer():
        problems = _of_integer(column, dtype, parsed, rules)
    elif dtype.is_float():
        problems = _of_float(column, parsed, rules)
    elif isinstance(dtype, pl.Decimal):
        problems = _of_decimal(column, dtype, parsed, rules)
    elif dtype == pl.String:
        problems = _of_text(column, parsed, is_json=is_json)
    elif dtype == INSTANT:
        return _of_instant(column, declared, parsed, rules)
    else:
        problems = _of_other(dtype, parsed, rules)
    return None if problems is None else Conversion(declared, column, tuple(problems))


def parse(declared: str, rules: Rules) -> Declared | None:
    """Return the type that a database declares; None if its name has another form."""
    found = _TYPE.fullmatch(declared.lower())
    if found is None:
        return None
    name = found["name"].strip() + (found["zone"] or "")
    size = int(found["size"]) if found["size"] else None
    return Declared(rules.aliases.get(name, name), size, int(found["scale"] or 0))


def _of_integer(
    column: pl.Expr, dtype: pl.DataType, to: Declared, rules: Rules
) -> list[Problem] | None:
    if to.name in _INTEGERS:
        return list(_outside(column, dtype, *_INTEGERS[to.name]))
    if to.name in _DECIMALS:
        digits = _whole_digits(to, rules)
        most = 10**digits - 1 if digits is not None and digits < _LONGEST_INTEGER else None
        return [] if most is None else list(_outside(column, dtype, -most, most))
    if to.name in _DOUBLES | _REALS:
        most = 2**53 if to.name in _DOUBLES else 2**24
        return list(_outside(column, dtype, -most, most))
    return None


def _outside(column: pl.Expr, dtype: pl.DataType, least: int, most: int) -> Iterator[Problem]:
    low, high = _INTEGERS[_POLARS[dtype]]
    if low < least or high > most:
        wide = column.cast(pl.Int128)
        first, last = (pl.lit(bound, pl.Int128) for bound in (least, most))
        yield f"not an integer from {least} to {most}", ~wide.is_between(first, last)


def _whole_digits(to: Declared, rules: Rules) -> int | None:
    """Return how many digits a decimal may have before the point; None without a limit."""
    if to.size is None:
        return rules.digits
    size = to.size if rules.digits is None else min(to.size, rules.digits)
    return max(size - to.scale, 0)


def _of_float(column: pl.Expr, to: Declared, rules: Rules) -> list[Problem] | None:
    if to.name in _DOUBLES:
        return []
    if to.name in _REALS:
        short = column.cast(pl.Float32).cast(pl.String)
        return [("not a number of single precision", short != column.cast(pl.String))]
    if to.name in _DECIMALS:
        return _beyond(column, to, rules) if to.size is not None else []
    return None


def _beyond(column: pl.Expr, to: Declared, rules: Rules) -> list[Problem]:
    """Return the problem of numbers with more digits than a decimal type has."""
    whole = _whole_digits(to, rules)
    pattern = rf"^-?0*\d{{0,{whole}}}(\.\d{{0,{to.scale}}}0*)?$"
    reason = f"not a number with at most {whole} digits before the point and {to.scale} behind"
    return [(reason, ~column.cast(pl.String).str.contains(pattern))]


def _of_decimal(
    column: pl.Expr, dtype: pl.Decimal, to: Declared, rules: Rules
) -> list[Problem] | None:
    if to.name in _TEXTS and to.size is None and rules.texts:
        return []
    if to.name not in _DECIMALS:
        return None
    if to.size is None and rules.digits is None:
        return []
    if to.size is None:
        digits = column.cast(pl.String).str.replace_all(r"[-.]", "").str.strip_chars_start("0")
        return [
            (f"a number of more than {rules.digits} digits", digits.str.len_chars() > rules.digits)
        ]
    fits = to.scale >= dtype.scale and to.size - to.scale >= dtype.precision - dtype.scale
    return [] if fits and rules.digits is None else _beyond(column, to, rules)


def _of_text(column: pl.Expr, to: Declared, *, is_json: bool) -> list[Problem] | None:
    if to.name in _TEXTS:
        if to.size is None:
            return []
        return [(f"a text of more than {to.size} characters", column.str.len_chars() > to.size)]
    if to.name in _CHARACTERS:
        size = to.size or 1
        return [(f"a text that has not {size} characters", column.str.len_chars() != size)]
    if to.name == "uuid":
        return [("not a UUID", ~column.str.contains(_UUID))]
    return [] if to.name in ("json", "jsonb") and is_json else None


def _of_instant(column: pl.Expr, declared: str, to: Declared, rules: Rules) -> Conversion | None:
    ms = column.cast(pl.Int64)
    if to.name == "date":
        problem = "not the begin of a day in UTC", ms % _DAY_MS != 0
        return Conversion(declared, column.dt.date(), (problem,))
    if to.name == _SECONDS or (to.name in _INSTANTS and to.size is not None and to.size < 3):
        part = 10 ** (3 - (to.size or 0))
        problems: tuple[Problem, ...] = ((f"not a multiple of {part} ms", ms % part != 0),)
    elif to.name in _INSTANTS or (to.name in _TEXTS and to.size is None and rules.texts):
        problems = ()
    else:
        return None
    local = rules.zones and not to.name.endswith("with time zone")
    return Conversion(declared, column.dt.replace_time_zone(None) if local else column, problems)


def _of_other(dtype: pl.DataType, to: Declared, rules: Rules) -> list[Problem] | None:
    """Return no problems for lists, structs, days and booleans; None for another type."""
    if dtype.is_nested():
        fits = to.name in ("json", "jsonb") or (to.name in _TEXTS and to.size is None)
    elif dtype == pl.Boolean:
        fits = to.name == "boolean" or (rules.texts and to.name in _INTEGERS)
    else:
        fits = to.name == "date" or (rules.texts and to.name in _TEXTS and to.size is None)
    return [] if fits else None
