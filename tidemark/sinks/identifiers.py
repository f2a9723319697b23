"""The rules of names: what a database or a file system cuts, folds or keeps for itself.

A name is never cut.  A cut name of one start is another table at the next, and two cut names may be
one table.  So a name that a place would change is refused at the start, with the name and the
limit.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidemark.sinks.table import Table

OWN_PREFIX = "tidemark_"
"""Names of the sink's own tables begin with it."""

_RENAME = "give the output or column another name"


def _itself(name: str) -> str:
    return name


@dataclass(frozen=True)
class Identifiers:
    """The names that a place takes.

    Attributes:
        place: the place, as errors name it.
        most_bytes: the longest name in bytes of UTF-8.
        fold: names that are equal after it are one name.
        columns: names of columns that the place has itself.
        prefixes: beginnings of the names of tables that the place or the sink has itself.
        derived: the names of the objects that the sink makes of a table, the table included.
    """

    place: str
    most_bytes: int = 2**31
    fold: Callable[[str], str] = _itself
    columns: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    derived: Callable[[Table], Iterable[str]] = lambda table: (table.name,)

    def problems(self, tables: Sequence[Table]) -> dict[str, str]:
        """Return the tables with a name that does not fit, each with the first reason."""
        objects: dict[str, str] = {}
        found = {}
        for table in tables:
            reasons = [*self._of_objects(table, objects), *self._of_columns(table)]
            if reasons:
                found[table.name] = reasons[0]
        return found

    def _of_objects(self, table: Table, objects: dict[str, str]) -> Iterator[str]:
        for name in self.derived(table):
            yield from self._too_long(f"table {table.name}: {name!r}", name)
            other = objects.setdefault(self.fold(name), table.name)
            if other != table.name:
                yield f"table {table.name}: {name!r} is also a name of table {other}; {_RENAME}"
        if table.name.startswith(self.prefixes):
            yield (
                f"table {table.name}: {self.place} and this sink keep names that begin with "
                f"{' or '.join(self.prefixes)} for themselves; {_RENAME}"
            )

    def _of_columns(self, table: Table) -> Iterator[str]:
        seen: dict[str, str] = {}
        for name in table.columns:
            what = f"table {table.name}: column {name!r}"
            yield from self._too_long(what, name)
            other = seen.setdefault(self.fold(name), name)
            if other != name:
                yield f"{what} and column {other!r} are one column in {self.place}; {_RENAME}"
            if self.fold(name) in self.columns:
                yield f"{what}: {self.place} has such a column itself; {_RENAME}"

    def _too_long(self, what: str, name: str) -> Iterator[str]:
        size = len(name.encode())
        if size > self.most_bytes:
            yield f"{what} has {size} bytes; {self.place} takes {self.most_bytes}: {_RENAME}"
