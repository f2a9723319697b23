"""Aggregated streams: the results of windows, published on a topic or handed on as rows."""

from dataclasses import dataclass, replace
from functools import cached_property

from tidemark.core.operators.ports import late_port, pane_port, shown_key
from tidemark.core.rows.schema import INSTANT
from tidemark.core.windows.arrival import ArrivalWindow
from tidemark.core.windows.pane import END, START
from tidemark.core.windows.trigger import Every, EveryProcessingTime, OnClose, on_update
from tidemark.core.windows.window import Session
from tidemark.errors import PipelineError
from tidemark.language.output import require_output
from tidemark.language.stream import Stream
from tidemark.plan.dataflow import Dataflow
from tidemark.plan.logical import Format, Node, Stage, WindowDefinition
from tidemark.plan.operators.late import late_node, require_late_rows
from tidemark.plan.outputs import Output
from tidemark.serde.avro_results import record_schema


@dataclass(frozen=True, eq=False)
class AggregatedStream(Stream):
    """The results of windows: a stream with one row for each key and window, once it is final.

    The columns are those of the key, ``start`` and ``end`` of the window (datetimes), and the
    values.  The event time is the last millisecond of the window.  ``to`` publishes panes as the
    trigger says.
    """

    stage: Stage

    def __repr__(self) -> str:
        return f"AggregatedStream({', '.join(self.stage.aggregation.aggregates)})"

    def to(self, name: str, format: Format = "json") -> None:  # noqa: A002 - the word users know
        """Publish panes on topic ``<pipeline>.<name>``, late rows on ``<pipeline>.<name>.late``.

        Raises:
            PipelineError: the name is not legal or is taken, the format is unknown, or Avro does
                not support a name or type.
        """
        require_output(self.dataflow, name, format)
        if format == "avro":
            self._require_avro(f"{self.dataflow.name}.{name}")
        self.dataflow.add_output(Output(name, format, self.stage.windowed, self.stage.aggregation))

    @cached_property
    def _every(self) -> Stream:
        stage = replace(self.stage, after="every")
        return Stream(self.dataflow, Node(self.columns, stage=stage))

    def updates(self) -> Stream:
        """Return a stream with every pane as a row, which replaces the row of the pane before.

        A row that is replaced is withdrawn from all that operators made of it.  So windows over
        this stream have early results and corrections; what stands at the end are the windows over
        the final results.  The stream cannot be published as it is: ``to`` publishes panes.

        Raises:
            PipelineError: the panes do not replace each other, or come at no time of an event.
        """
        refusal = _refusal(self.stage.windowed) or _refusal_of_updates(self.stage.windowed)
        if refusal is not None:
            raise PipelineError(f"updates(): {refusal}")
        return self._every

    @cached_property
    def late(self) -> Stream:
        """The stream of the rows that are late for all their windows, each with its own time.

        Its columns are those of the rows, and ``reason``, ``start`` and ``end`` of the window
        missed, ``late_by_ms``, and ``own_watermark``.  Windows judge a row by this watermark and
        their own ``allowed_lateness``.

        Raises:
            PipelineError: the windows have no late rows, sessions decide what is late, or a column
                has the name of one that is added.
        """
        require_late_rows(self.stage.windowed)
        return Stream(self.dataflow, late_node(self.stage))

    def _require_avro(self, topic: str) -> None:
        """Raise PipelineError if Avro does not support a name or type: build the schemas once."""
        windowed = self.stage.windowed
        numbered = isinstance(windowed.window, ArrivalWindow)
        columns, values = windowed.node.columns, self.stage.aggregation.types
        record_schema(topic, pane_port(windowed.key, columns, values, numbered=numbered))
        record_schema(f"{topic}.late", late_port(windowed.key, columns))

    def _require_rows(self, what: str) -> None:
        refusal = _refusal(self.stage.windowed)
        if refusal is not None:
            raise PipelineError(
                f"{what}: {refusal}; only results of windows that become final in event time are "
                "rows of a stream; end this one with .to('name')"
            )


def aggregated(dataflow: Dataflow, stage: Stage) -> AggregatedStream:
    """Return the stream of a stage's results."""
    windowed, values = stage.windowed, stage.aggregation.types
    key = {name: windowed.node.columns[name] for name in shown_key(windowed.key)}
    columns = {**key, START: INSTANT, END: INSTANT, **values}
    return AggregatedStream(dataflow, Node(columns, stage=stage), stage)


def _refusal_of_updates(windowed: WindowDefinition) -> str | None:
    """Say why panes do not replace each other at a time that rows decide."""
    trigger = windowed.trigger
    early = trigger.early if isinstance(trigger, OnClose) else trigger
    if windowed.accumulation == "discarding":
        return "discarding panes add up, they do not replace each other; use accumulating ones"
    if isinstance(early, EveryProcessingTime):
        return "early panes by processing time do not depend on rows alone; use every(rows=...)"
    if isinstance(windowed.window, Session) and isinstance(early, Every) and trigger != on_update():
        return (
            f"sessions with {trigger!r}: a pane would stand although its session has other bounds; "
            "use on_update() or on_close()"
        )
    return None


def _refusal(windowed: WindowDefinition) -> str | None:
    """Say why results may be of any age, so that the rows after them could be late."""
    if isinstance(windowed.window, ArrivalWindow):
        return "windows in order of arrival, and running aggregates, end at no time"
    if windowed.by_processing_time:
        return "windows of processing time do not end in event time"
    if isinstance(windowed.window, Session) and windowed.lateness == "after_merging":
        return 'sessions with lateness="after_merging" accept rows of any age'
    if windowed.empty:
        return "empty=True publishes windows long after their end"
    return None
