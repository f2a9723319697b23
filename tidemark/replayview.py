"""What ``tidemark replay`` and ``tidemark diff`` print."""

from collections.abc import Iterator, Sequence

from tidemark.plan import Plan
from tidemark.spark.diff import Difference, Message, TopicDiff
from tidemark.spark.outcome import Outcome
from tidemark.spark.run import Compared, Done
from tidemark.spark.unit import Tally

_LONGEST = 400


def replay_lines(plan: Plan, done: Done) -> Iterator[str]:
    """Say what each operator did, and how long it took."""
    for operator in plan.operators:
        tally = _total(done.outcomes, operator.operator.name)
        yield (
            f"{operator.operator.name}: {tally.rows:,} rows = {tally.rows - tally.late:,} accepted "
            f"+ {tally.late:,} late, {tally.panes:,} panes"
        )
    logs = {outcome.log: outcome.segments for outcome in done.outcomes}
    yield (
        f"{sum(logs.values()):,} segments of {len(logs)} log partitions by {len(done.outcomes)} "
        f"tasks in {done.took_s:.1f} s; Spark started in {done.startup_s:.1f} s"
    )


def _total(outcomes: Sequence[Outcome], operator: str) -> Tally:
    total = Tally()
    for outcome in outcomes:
        tally = outcome.operators.get(operator, Tally())
        total.rows += tally.rows
        total.late += tally.late
        total.panes += tally.panes
    return total


def diff_lines(compared: Compared) -> Iterator[str]:
    """Say what agrees, what does not, and why it may not."""
    yield from map(_topic_line, compared.topics)
    live = sum(topic.live for topic in compared.topics)
    windows = sum(topic.windows for topic in compared.topics)
    if compared.behind:
        yield f"live is {compared.behind:,} offsets behind its logs; those are not compared"
    if compared.equal:
        yield f"equal: {live:,} messages of {windows:,} keys and windows"
        return
    different = sum(topic.different for topic in compared.topics)
    yield f"different: {different:,} of {windows:,} keys and windows; the first of them:"
    for difference in compared.differences:
        yield from _difference_lines(difference)
    yield f"likely cause: {_cause(compared)}"


def _topic_line(topic: TopicDiff) -> str:
    under_way = f", {topic.under_way:,} under way" if topic.under_way else ""
    state = f"{topic.different:,} DIFFERENT" if topic.different else "equal"
    return (
        f"{topic.topic}: live {topic.live:,}, replay {topic.replayed:,}{under_way}; "
        f"{topic.windows:,} keys and windows, {state}"
    )


def _difference_lines(difference: Difference) -> Iterator[str]:
    yield f"{difference.topic}/{difference.partition} {_text(difference.key)}"
    for message in difference.only_live:
        yield f"  live    {_shown(message)} (offset {message.offset})"
    for message in difference.only_replay:
        yield f"  replay  {_shown(message)} (of the segment at offset {message.offset} of the log)"
    if not difference.only_live and not difference.only_replay:
        yield "  the same messages, in another order"


def _shown(message: Message) -> str:
    text = _text(message.value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _cause(compared: Compared) -> str:
    """Name what most likely made live and replay differ."""
    if compared.cut_short:
        return f"live's history is incomplete: {'; '.join(compared.cut_short)}"
    only_live = [d for d in compared.differences if d.only_live and not d.only_replay]
    if len(only_live) == len(compared.differences):
        return (
            "live published more than the log gives: without exactly-once some of it twice, or "
            "its topics still hold results of an earlier life or program"
        )
    return "the pipeline is not the one that made the live results: its logic has changed"
