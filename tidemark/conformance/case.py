"""Case files: JSON arrays of cases, read and checked before a case runs."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemark.conformance.parameters import faults_of
from tidemark.errors import TidemarkError

Fields = Mapping[str, Any]

COMPARISONS = ("multiset", "ordered", "ordered_per_window")

NEUTRAL = "neutral"
"""The dialect of cases that hold for all systems."""

_NEEDED: dict[str, type] = {
    "id": str,
    "dialect": str,
    "spec": dict,
    "input": list,
    "expected": list,
    "compare": str,
}


class ConformanceError(TidemarkError):
    """A case file that cannot be read, or a case with an unknown parameter."""


@dataclass(frozen=True)
class Case:
    """One case.

    ``spec``: the parameters to run ``input`` with.  ``expected``: the results, compared by the rule
    ``compare``.  ``more``: fields that few cases have, such as ``counters`` or ``expect_from``.
    """

    id: str
    dialect: str
    spec: Fields
    input: tuple[Fields, ...]
    expected: tuple[Fields, ...]
    compare: str
    note: str
    more: Fields

    @property
    def window(self) -> Fields:
        """The window's parameters, including its ``type``."""
        window: Fields = self.spec["window"]
        return window

    @property
    def emit(self) -> str:
        """When results are published, or what the case asks instead."""
        return str(self.spec["emit"])

    @property
    def watermark(self) -> Fields:
        """How time moves; ``none`` if the case does not state it."""
        watermark: Fields = self.spec.get("watermark") or {"type": "none"}
        return watermark

    @property
    def is_neutral(self) -> bool:
        """Whether the case must pass: it needs no option of another system."""
        return self.dialect == NEUTRAL

    def elements(self) -> Iterable[Fields]:
        """Yield the input's elements, including those in bundles."""
        for item in self.input:
            if "bundle" in item:
                yield from item["bundle"]
            elif "ts" in item:
                yield item


def read_cases(files: Iterable[Path]) -> list[Case]:
    """Return the cases of all files in order.

    Raises:
        ConformanceError: a file is not an array of valid cases, or an id is used twice.
    """
    cases: dict[str, Case] = {}
    for file in files:
        for number, fields in enumerate(_array(file)):
            case = _case(fields, f"{file}: case {number}")
            if case.id in cases:
                raise ConformanceError(f"{file}: case {number}: id {case.id!r} is used twice")
            cases[case.id] = case
    return list(cases.values())


def _array(file: Path) -> list[Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConformanceError(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise ConformanceError(f"{file}: not JSON: {error}") from error
    if not isinstance(found, list):
        raise ConformanceError(f"{file}: a {type(found).__name__}, not an array of cases")
    return found


def _case(fields: object, where: str) -> Case:
    if not isinstance(fields, dict):
        raise ConformanceError(f"{where}: {fields!r} is not an object")
    where = f"{where} ({fields.get('id', 'no id')})"
    for name, kind in _NEEDED.items():
        if not isinstance(fields.get(name), kind):
            raise ConformanceError(f"{where}: {name} is {fields.get(name)!r}, not {kind.__name__}")
    _require_spec(fields["spec"], where)
    for name in ("input", "expected"):
        if not all(isinstance(item, dict) for item in fields[name]):
            raise ConformanceError(f"{where}: {name} holds more than objects")
    if fields["compare"] not in COMPARISONS:
        raise ConformanceError(f"{where}: compare {fields['compare']!r} is not in {COMPARISONS}")
    known = {*_NEEDED, "note"}
    more = {name: value for name, value in fields.items() if name not in known}
    faults = list(faults_of(fields["spec"], fields["input"], more))
    if faults:
        raise ConformanceError(f"{where}: {'; '.join(faults)}")
    return Case(
        id=fields["id"],
        dialect=fields["dialect"],
        spec=fields["spec"],
        input=tuple(fields["input"]),
        expected=tuple(fields["expected"]),
        compare=fields["compare"],
        note=str(fields.get("note", "")),
        more=more,
    )


def _require_spec(spec: Fields, where: str) -> None:
    window = spec.get("window")
    if not isinstance(window, dict) or not isinstance(window.get("type"), str):
        raise ConformanceError(f"{where}: spec.window {window!r} has no type")
    if not isinstance(spec.get("emit"), str):
        raise ConformanceError(f"{where}: spec.emit is {spec.get('emit')!r}, not a string")
