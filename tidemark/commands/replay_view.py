"""Formats the output of ``tidemark replay`` and ``tidemark diff``."""

from collections.abc import Iterator, Sequence

from tidemark.core.operators.output import Tally
from tidemark.plan.physical import Plan
from tidemark.spark.outcome import Outcome
from tidemark.spark.replay.folders import FoldersDiff
from tidemark.spark.replay.jobs import DiffResult, ReplayResult
from tidemark.spark.replay.matching import Difference, Message, TopicDiff

_LONGEST = 400


def replay_lines(plan: Plan, result: ReplayResult) -> Iterator[str]:
    """Yield a line per operator with its counts, and one with times."""
    for operator in plan.operators:
        tally = _total(result.outcomes, operator.name)
        dead = f" + {tally.dead:,} dead" * bool(tally.dead)
        yield (
            f"{operator.name}: {tally.rows:,} rows = {tally.accepted:,} accepted "
            f"+ {tally.late:,} late{dead}, {tally.results:,} panes"
        )
    logs = {outcome.log: outcome.segments for outcome in result.outcomes}
    yield (
        f"{sum(logs.values()):,} segments of {len(logs)} log partitions by {len(result.outcomes)} "
        f"tasks in {result.took_s:.1f} s; Spark started in {result.startup_s:.1f} s"
    )


def _total(outcomes: Sequence[Outcome], operator: str) -> Tally:
    total = Tally()
    for outcome in outcomes:
        tally = outcome.operators.get(operator, Tally())
        total.rows += tally.rows
        total.late += tally.late
        total.dead += tally.dead
        total.results += tally.results
    return total


def diff_lines(result: DiffResult) -> Iterator[str]:
    """Yield lines: counts per topic, the verdict, first differences, and the likely cause."""
    yield from (_topic_line(topic, "live", "replay") for topic in result.topics)
    if result.behind:
        yield f"live is {result.behind:,} offsets behind its logs; these offsets are not compared"
    yield from _verdict(result.topics, equal=result.equal)
    if not result.equal:
        for difference in result.differences:
            yield from _difference_lines(difference, *_LIVE_PLACES)
        yield f"likely cause: {_cause(result)}"


def folders_lines(result: FoldersDiff) -> Iterator[str]:
    """Yield the same lines for two folders of results."""
    yield from (_topic_line(topic, "A", "B") for topic in result.topics)
    yield from result.only
    yield from _verdict(result.topics, equal=result.equal)
    if not result.equal:
        for difference in result.differences:
            yield from _difference_lines(difference, *_FOLDER_PLACES)
        yield f"likely cause: {_cause_of_folders(result)}"


_SEGMENT = "of the segment at offset {} of the log"
_LIVE_PLACES = ("live    {} (offset {})", "replay  {} (" + _SEGMENT + ")")
_FOLDER_PLACES = ("A  {} (" + _SEGMENT + ")", "B  {} (" + _SEGMENT + ")")


def _verdict(topics: Sequence[TopicDiff], *, equal: bool) -> Iterator[str]:
    windows = sum(topic.windows for topic in topics)
    if equal:
        yield f"equal: {sum(t.left for t in topics):,} messages of {windows:,} keys and windows"
    else:
        different = sum(topic.different for topic in topics)
        yield f"different: {different:,} of {windows:,} keys and windows; the first of them:"


def _topic_line(topic: TopicDiff, left: str, right: str) -> str:
    under_way = f", {topic.under_way:,} under way" if topic.under_way else ""
    state = f"{topic.different:,} DIFFERENT" if topic.different else "equal"
    return (
        f"{topic.topic}: {left} {topic.left:,}, {right} {topic.right:,}{under_way}; "
        f"{topic.windows:,} keys and windows, {state}"
    )


def _difference_lines(difference: Difference, left: str, right: str) -> Iterator[str]:
    yield f"{difference.topic}/{difference.partition} {_text(difference.key)}"
    for message in difference.only_left:
        yield "  " + left.format(_shown(message), message.offset)
    for message in difference.only_right:
        yield "  " + right.format(_shown(message), message.offset)
    if not difference.only_left and not difference.only_right:
        yield "  the same messages, in another order"


def _cause_of_folders(result: FoldersDiff) -> str:
    left, right = result.left.info, result.right.info
    if left.logs != right.logs:
        moved = next(
            at for at in {**left.logs, **right.logs} if left.logs.get(at) != right.logs.get(at)
        )
        return (
            f"they are of different ranges of the logs: {moved} {left.logs.get(moved, 'absent')} "
            f"and {right.logs.get(moved, 'absent')}"
        )
    if left.fingerprint != right.fingerprint:
        return f"they are of two programs: {left.fingerprint} and {right.fingerprint}"
    return "one is of other event times or operators, or its files were changed"


def _shown(message: Message) -> str:
    text = _text(message.value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _cause(result: DiffResult) -> str:
    """Return the most likely cause of the difference between live and replay."""
    if result.truncated_topics:
        return f"live's history is incomplete: {'; '.join(result.truncated_topics)}"
    only_live = [d for d in result.differences if d.only_left and not d.only_right]
    if len(only_live) == len(result.differences):
        return (
            "live has published results that the log does not give: without exactly-once some "
            "results came twice, or its topics still hold results of an earlier start or program"
        )
    return "the pipeline is not the one that made the live results: its logic has changed"
