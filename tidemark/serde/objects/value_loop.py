"""The loop that takes the values out of records: code that is made for the type of the records.

One loop takes each record from the decoder, and frees it before the next one is decoded.  So a
record is looked at while it is in the processor's cache.  The interpreter remembers at each place
of the code where the type has the attribute (decision 0053).  The code of
``{"id": str, "user": {"name": str}, "items": [{"n": int}]}`` is::

    def take(values, v0, v1, v2, v3, v4, v5, v6, v7):
        for o1 in values:
            v1.append(o1.m0)
            o2 = o1.m1
            if o2 is None:
                v2.append(len(v3))
                o2 = c1
            v3.append(o2.m0)
            o3 = o1.m2
            if o3 is None:
                v4.append(len(v5))
                o3 = ()
            v5.append(len(o3))
            for o4 in o3:
                v7.append(o4.m0)

A record that is null itself, and items that are null, are noted in ``v0`` and ``v6``.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tidemark.serde.objects.member_values import ListValues, MapValues, ObjectValues, Values

_MOST_LOOPS = 10
"""Loops within loops of one function; the interpreter takes 20."""


class ValueLoop:
    """Takes values of one kind.  The code is made when it is first used."""

    def __init__(self, empty: Callable[[], Values]) -> None:
        """``empty``: returns empty values of the kind, which the loop fills."""
        self._empty = empty
        self._take: Callable[..., None] | None = None

    def __call__(self, values: Iterable[Any]) -> Values:
        """Return the values; the objects of an iterator are freed at once."""
        taken = self._empty()
        self._take = self._take or _function(taken)
        self._take(values, *_lists(taken))
        return taken


def _lists(values: Values) -> Iterator[list[Any]]:
    """Yield the lists of values, always in the same order."""
    match values:
        case list():
            yield values
        case ObjectValues(members=members, nulls=nulls):
            yield nulls
            for each in members.values():
                yield from _lists(each)
        case ListValues(items=items, counted=counted, nulls=nulls):
            yield nulls
            yield counted
            if isinstance(values, MapValues):
                yield values.names
            yield from _lists(items)


def _function(values: Values) -> Callable[..., None]:
    """Return the function that takes values of the kind of ``values``."""
    code = _Code(values)
    parameters = ", ".join(["values", *code.names.values()])
    code.loop("values", values, 1)
    text = "\n".join([f"def take({parameters}):", *code.lines])
    exec(text, code.constants)
    take: Callable[..., None] = code.constants["take"]
    return take


class _Code:
    """The lines of a function.  ``names``: of the lists, by id."""

    def __init__(self, values: Values) -> None:
        self.lines: list[str] = []
        self.names = {id(each): f"v{n}" for n, each in enumerate(_lists(values))}
        self.constants: dict[str, Any] = {}
        self._variables = 0

    def loop(self, iterable: str, values: Values, depth: int, loops: int = 1) -> None:
        """Write the loop over values.  ``iterable``: an expression.  ``loops``: this one, too."""
        if loops > _MOST_LOOPS:
            names = (self.names[id(each)] for each in _lists(values))
            self._line(
                depth, f"{self._constant(_function(values))}({iterable}, {', '.join(names)})"
            )
            return
        each = self._variable()
        self._line(depth, f"for {each} in {iterable}:")
        self._value(each, values, depth + 1, loops)

    def _value(self, value: str, values: Values, depth: int, loops: int) -> None:
        """Write how one value is taken.  ``value``: an expression without effects."""
        if isinstance(values, list):
            self._line(depth, f"{self.names[id(values)]}.append({value})")
            return
        if "." in value:
            variable = self._variable()
            self._line(depth, f"{variable} = {value}")
            value = variable
        if isinstance(values, ObjectValues):
            if not values.members:
                self._line(depth, "pass")
                return
            self._null(value, values, self._constant(values.type.empty), depth)
            for each, member in zip(
                values.members.values(), values.type.members.values(), strict=True
            ):
                self._value(f"{value}.{member.slot}", each, depth, loops)
            return
        self._null(value, values, "{}" if isinstance(values, MapValues) else "()", depth)
        self._line(depth, f"{self.names[id(values.counted)]}.append(len({value}))")
        items = value
        if isinstance(values, MapValues):
            self._line(depth, f"{self.names[id(values.names)]} += {value}")
            items = f"{value}.values()"
        if isinstance(values.items, list):
            self._line(depth, f"{self.names[id(values.items)]} += {items}")
        else:
            self.loop(items, values.items, depth, loops + 1)

    def _null(self, value: str, values: ObjectValues | ListValues, empty: str, depth: int) -> None:
        """Write that null is noted, and taken as an empty value."""
        nulls, counted = self.names[id(values.nulls)], self.names[id(values.counted)]
        self._line(depth, f"if {value} is None:")
        self._line(depth + 1, f"{nulls}.append(len({counted}))")
        self._line(depth + 1, f"{value} = {empty}")

    def _line(self, depth: int, text: str) -> None:
        self.lines.append(" " * depth + text)

    def _variable(self) -> str:
        self._variables += 1
        return f"o{self._variables}"

    def _constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name
