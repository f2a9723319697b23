"""Rules as JSON: ``{"version": 1, "within": "10m", "steps": [...]}`` to patterns.

docs/rules.md describes the members.  A rule says all that a pattern of the language says, with
conditions as text.
"""

from collections.abc import Mapping
from functools import lru_cache
from keyword import iskeyword
from typing import Literal

import msgspec
import polars as pl

from tidemark.core.operators.patterns.pattern import Contiguity, Pattern, Skip, Step
from tidemark.core.operators.patterns.results import FIRST, LAST
from tidemark.core.time.duration import duration_text, positive_ms
from tidemark.errors import PipelineError
from tidemark.serde.rules.condition_text import condition_of

VERSION = 1
"""The version of the form of rules."""

MAX_BYTES = 100_000
"""Maximum length of a rule."""

_REMEMBERED = 4_096


class _Versioned(msgspec.Struct):
    version: int


class _SkipTo(msgspec.Struct, forbid_unknown_fields=True):
    to_first: str | None = None
    to_last: str | None = None


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    """A step, or with ``never`` alone a condition that no row fulfils."""

    name: str | None = None
    where: str | None = None
    on: str | None = None
    times: int | tuple[int, int | None] = 1
    contiguity: Contiguity = "followed_by"
    between: Contiguity = "followed_by"
    greedy: bool = False
    until: str | None = None
    never: str | None = None


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    within: str
    steps: list[_Part]
    skip: Literal["past_last", "to_next", "none"] | _SkipTo = "past_last"


def pattern_of(text: str, columns: Mapping[str, pl.DataType], max_within_ms: int) -> Pattern:
    """Return the pattern of a rule over rows with these columns; few texts are parsed again.

    Raises:
        PipelineError: it is no JSON of this form, its version is unknown, a condition is wrong, or
            its time is longer than ``max_within_ms``.
    """
    return _pattern_of(text, tuple(columns.items()), max_within_ms)


@lru_cache(maxsize=_REMEMBERED)
def _pattern_of(
    text: str, columns: tuple[tuple[str, pl.DataType], ...], max_within_ms: int
) -> Pattern:
    rule = _decoded(text.encode())
    within_ms = positive_ms(rule.within, "within")
    if within_ms > max_within_ms:
        raise PipelineError(
            f"within: {rule.within} is longer than {duration_text(max_within_ms)}, the max_within "
            "of match()"
        )
    if not rule.steps or rule.steps[0].never is not None:
        raise PipelineError("steps: the first one is a step with name and where")
    return _Steps(dict(columns)).pattern(rule, within_ms)


def _decoded(text: bytes) -> _Rule:
    if len(text) > MAX_BYTES:
        raise PipelineError(f"the rule has {len(text):,} bytes: at most {MAX_BYTES:,} are allowed")
    try:
        version = msgspec.json.decode(text, type=_Versioned).version
        if version != VERSION:
            raise PipelineError(f"version: {version} is unknown; write {VERSION}")
        return msgspec.json.decode(text, type=_Rule)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PipelineError(f"the rule is not JSON of version {VERSION}: {error}") from error


class _Steps:
    """Makes the steps of a pattern, one after the other."""

    def __init__(self, columns: Mapping[str, pl.DataType]) -> None:
        self._columns = columns
        self._steps: list[Step] = []
        self._never: list[pl.Expr] = []

    def pattern(self, rule: _Rule, within_ms: int) -> Pattern:
        for number, part in enumerate(rule.steps):
            what = f"steps[{number}]"
            if part.never is None:
                self._add_step(part, what)
            elif part != _Part(never=part.never):
                raise PipelineError(f"{what}: a part with never has no other member")
            else:
                self._never.append(self._condition(part.never, f"{what}.never"))
        return Pattern(tuple(self._steps), within_ms, tuple(self._never), _skip(rule.skip))

    def _add_step(self, part: _Part, what: str) -> None:
        if part.name is None or part.where is None:
            raise PipelineError(f"{what}: a step has name and where")
        self._require_name(part.name, what)
        least, most = (part.times, part.times) if isinstance(part.times, int) else part.times
        names = (*(step.name for step in self._steps), part.name)
        self._steps.append(
            Step(
                part.name,
                self._condition(part.where, f"{what}.where"),
                None if part.on is None else self._condition(part.on, f"{what}.on", names),
                part.contiguity,
                least,
                most,
                part.between,
                part.greedy,
                None if part.until is None else self._condition(part.until, f"{what}.until"),
                tuple(self._never),
            )
        )
        self._never = []

    def _require_name(self, name: str, what: str) -> None:
        if not name.isidentifier() or iskeyword(name) or name in (FIRST, LAST):
            raise PipelineError(
                f"{what}.name: {name!r} is not allowed; a name has letters, digits and _, begins "
                f"with no digit, and is not {FIRST}, {LAST}, and, or, not, in"
            )
        clashing = [column for column in self._columns if column.startswith(f"{name}.")]
        if clashing:
            raise PipelineError(
                f"{what}.name: {clashing[0]!r} is a column of the stream; give the step another "
                "name"
            )

    def _condition(self, text: str, what: str, steps: tuple[str, ...] = ()) -> pl.Expr:
        try:
            return condition_of(text, self._columns, steps)
        except PipelineError as error:
            raise PipelineError(f"{what}: {error}") from error


def _skip(skip: Literal["past_last", "to_next", "none"] | _SkipTo) -> Skip:
    if isinstance(skip, str):
        return Skip(skip)
    if skip.to_first is not None and skip.to_last is None:
        return Skip("to_first", skip.to_first)
    if skip.to_last is not None and skip.to_first is None:
        return Skip("to_last", skip.to_last)
    raise PipelineError('skip: it is "past_last", "to_next", "none", or has to_first or to_last')
