"""How the operators of a log partition start: each where its own state ends.

See docs/operations.md, "Operators that catch up".  An operator whose state is not at the commit of
its log partition is in one of these cases:

* It is new: it starts at the first segment of the log.
* It was reset, or an earlier program ran it: it continues at the offset in its changelog.
* Its topic of results was deleted, the log lacks its next segments, or its state is that of another
  log: it has trouble.
"""

import logging
from collections.abc import Iterable, Mapping

from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import EARLIEST, offsets
from tidemark.runtime.client.generations import Generation, Key, begun_generations
from tidemark.runtime.client.topics import topic_ids
from tidemark.runtime.keyed.keyed_operator import KeyedOperator
from tidemark.runtime.keyed.log_partition import LogPartition
from tidemark.serde.changelog import NO_COMMIT

_log = logging.getLogger("tidemark")


def stop_without_results(
    admin: AdminClient, logs: Iterable[LogPartition], generations: Mapping[Key, Generation]
) -> None:
    """Stop the operators whose topics of results were deleted, before their state is restored."""
    found = [
        (each, generations[each.plan.name, log.at.number])
        for log in logs
        for each in log.operators
        if (each.plan.name, log.at.number) in generations
    ]
    names = dict.fromkeys(topic for each, _ in found for topic in each.plan.topics)
    ids = topic_ids(admin, names)
    for operator, generation in found:
        for topic in operator.plan.topics:
            if generation.topic_ids.get(topic, ids[topic]) != ids[topic]:
                operator.stop(
                    StateError(
                        f"topic {topic} was deleted, and the results in it are gone. 'tidemark "
                        f"reset PIPELINE --operator {operator.plan.name}' publishes them again"
                    )
                )


def begin_operators(
    admin: AdminClient, logs: Iterable[LogPartition], generations: Mapping[Key, Generation]
) -> None:
    """Let the operators of log partitions begin after a restore; note their first generations."""
    logs = list(logs)
    firsts = offsets(admin, [log.at for log in logs if log.lagging], EARLIEST)
    for log in logs:
        begun = {
            each.plan.name: _begin(each, log, firsts[log.at])
            for each in log.operators
            if each in log.lagging
        }
        _note_absent(log, generations)
        log.passed(log.commit, ahead=log.past.ahead, snapshots=log.past.snapshots)
        for each in log.operators:
            if not each.is_stopped:
                known = generations.get((each.plan.name, log.at.number))
                if known is not None and not known.unused:
                    if known.log not in ("", log.at.topic):
                        each.stop(_of_another_log(each, log, known.log))
                        continue
                    each.begin(known, is_new=False)
                    continue
                first = _first_generation(admin, log, each, begun)
                if known is not None:  # the results of the first state after the reset
                    first = replace(first, number=known.number, begins=known.begins)
                each.begin(first, is_new=True)


def _begin(operator: KeyedOperator, log: LogPartition, first: int) -> int:
    """Set where an operator that lags begins; return that offset.  ``first``: of the log."""
    task = operator.task
    if log.apart.get(operator.plan.name) == NO_COMMIT:
        task.next_offset = first
    elif task.next_offset < first:
        operator.stop(
            StateError(
                f"{log.at}: operator {operator.plan.name!r} needs the segments from offset "
                f"{task.next_offset} on, and the log begins at {first}. 'tidemark reset PIPELINE "
                f"--operator {operator.plan.name}' starts it afresh from its log"
            )
        )
    operator.is_behind = task.next_offset < log.offset
    if operator.is_behind and operator.trouble is None:
        _log.info(
            "%s catches up from offset %d to %d; the others go on",
            operator.where,
            task.next_offset,
            log.offset,
        )
    return task.next_offset


def _of_another_log(operator: KeyedOperator, log: LogPartition, earlier: str) -> StateError:
    return StateError(
        f"{log.at}: the state of operator {operator.plan.name!r} is that of log {earlier}. "
        f"'tidemark reset PIPELINE --operator {operator.plan.name}' starts it afresh from its log"
    )


def _note_absent(log: LogPartition, generations: Mapping[Key, Generation]) -> None:
    """Remember the last commit of operators that are not in the pipeline now.

    They go first: if not all fit the metadata of an offset, those of the pipeline stay.
    """
    present = {each.plan.name for each in log.operators}
    services = {each.plan.service for each in log.operators}
    absent = {
        name: log.commit
        for (name, number), each in generations.items()
        if (each.log, number) == log.at
        and each.service in services
        and name not in present
        and not each.unused
    }
    if log.past.sequence:
        log.apart = {
            name: each for name, each in absent.items() if name not in log.apart
        } | log.apart


def _first_generation(
    admin: AdminClient, log: LogPartition, operator: KeyedOperator, begun: Mapping[str, int]
) -> Generation:
    """Return the generation of an operator that has none; ``begun``: offsets, by operator.

    The results of a state that an earlier version of Tidemark wrote belong to it.
    """
    name = operator.plan.name
    at: dict[Partition, int] = {log.at: begun.get(name, log.past.begun)}
    (generation,) = begun_generations(admin, [operator.plan], at).values()
    is_new = not log.past.sequence or log.apart.get(name) == NO_COMMIT
    return generation if is_new else replace(generation, begins={})
