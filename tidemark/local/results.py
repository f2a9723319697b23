"""What a run has published, as frames of polars."""

import html
from collections.abc import Iterator, Mapping

import polars as pl

from tidemark.core.operators.ports import Port
from tidemark.core.rows.schema import INSTANT
from tidemark.core.windows.pane import END_OF_INPUT, RETRACTED
from tidemark.local.run import LocalRun
from tidemark.local.view import dead_letters, published_rows, summary

DEAD_LETTERS = "dead-letters"
_SHOWN_ROWS = 10
_LETTER = {
    "reason": pl.String(),
    "stage": pl.String(),
    "topic": pl.String(),
    "partition": pl.Int32(),
    "offset": pl.Int64(),
    "timestamp_ms": pl.Int64(),
    "key": pl.String(),
    "value": pl.String(),
}


class Results(Mapping[str, pl.DataFrame]):
    """The frames of a run by topic, without the pipeline's name: ``results["pops-per-minute"]``.

    Late rows are in ``results["pops-per-minute.late"]``, refused records in
    ``results["dead-letters"]``.  A topic without rows has a frame without rows.  Instants are
    datetimes in UTC.

    ``counts``: a line for each raw topic and operator: what became of its records and rows.
    """

    def __init__(self, run: LocalRun, *, every_pane: bool = False) -> None:
        """``every_pane``: every published pane, not only the last one of each window."""
        self.pipeline = run.plan.pipeline
        self.counts = tuple(summary(run))
        self._frames = {
            each.topic.removeprefix(f"{self.pipeline}."): _frame(each.port, rows)
            for each, rows in published_rows(run, every_pane=every_pane)
        }
        letters = b"\n".join(dead_letters(run, every_pane=every_pane))
        self._frames[DEAD_LETTERS] = (
            pl.read_ndjson(letters, schema=_LETTER) if letters else pl.DataFrame(schema=_LETTER)
        )

    def __getitem__(self, topic: str) -> pl.DataFrame:
        """Return the rows of a topic.

        Raises:
            KeyError: there is no such topic; names all topics.
        """
        try:
            return self._frames[topic]
        except KeyError:
            raise KeyError(f"no topic {topic!r}; there are {', '.join(self)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def __repr__(self) -> str:
        rows = ", ".join(f"{topic}: {frame.height}" for topic, frame in self.items())
        return f"Results({rows})"

    def __str__(self) -> str:
        """Return the first rows of each topic that has some, and the counts, as text."""
        frames = [f"{topic}\n{frame}" for topic, frame in self.items() if frame.height]
        return "\n\n".join([*frames, "\n".join(self.counts)])

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        frames = [
            f"<h4>{html.escape(topic)}: {_shown(frame.height)}</h4>"
            f"{frame.head(_SHOWN_ROWS)._repr_html_()}"
            for topic, frame in self.items()
            if frame.height
        ]
        counts = "\n".join(map(html.escape, self.counts))
        return "".join([*frames, f"<pre>{counts}</pre>"])


def _shown(rows: int) -> str:
    if rows > _SHOWN_ROWS:
        return f"{rows:,} rows, of which these are the first {_SHOWN_ROWS}"
    return "1 row" if rows == 1 else f"{rows} rows"


def _frame(port: Port, rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows as the port's topic has them, with END_OF_INPUT where results have it."""
    if rows.is_empty():
        rows = pl.DataFrame(schema=dict(port.columns))
        if not port.rejects:
            rows = rows.with_columns(pl.lit(value=False).alias(END_OF_INPUT))
    else:
        rows = port.published(rows)
    if RETRACTED in rows.columns and not rows[RETRACTED].any():
        rows = rows.drop(RETRACTED)
    instants = [name for name in port.instants if rows.schema.get(name) == pl.Int64()]
    return rows.with_columns(pl.col(instants).cast(INSTANT))
