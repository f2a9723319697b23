"""What a deployment of a pipeline would do: lines about sources and ingest, one for each output.

See docs/operations.md, "Changing a pipeline".
"""

from collections.abc import Iterator, Sequence

from confluent_kafka.admin import AdminClient

from tidemark.plan.changes import Change, changes, signature_changes
from tidemark.plan.matched_topics import matched_topics
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.plan.placement import comparable_program
from tidemark.plan.program import Program
from tidemark.runtime.client.generations import Generation, newest_generations
from tidemark.runtime.client.recorded_program import news, recorded_program, refusal
from tidemark.runtime.client.topics import partition_counts
from tidemark.runtime.config import Config
from tidemark.runtime.faults import as_typed


def deployment_lines(config: Config, admin: AdminClient, plan: Plan, pipeline: str) -> list[str]:
    """Return what the next start of the services would do.

    ``plan``: the placed plan.  ``pipeline``: its module, for the commands that are advised.
    """
    matched = matched_topics(plan, partition_counts(admin)).lines()
    recorded = recorded_program(config, admin, plan.generations)
    if recorded is None:
        return [*matched, "no program is recorded: the first start of ingest records it"]
    program = comparable_program(plan, recorded)
    found = changes(recorded, program)
    generations = newest_generations(config, admin, plan.generations)
    states = {name: generation for (name, _), generation in generations.items()}
    lines = [
        *matched,
        *_ingest_lines(recorded, program, found),
        *(
            f"output {each.name} {_fate(each, states.get(each.name), recorded, found)}"
            for each in plan.operators
        ),
    ]
    return [as_typed(line, pipeline, "SERVICE", config.bootstrap_servers) for line in lines]


def _ingest_lines(recorded: Program, program: Program, found: Sequence[Change]) -> Iterator[str]:
    if found:
        yield f"ingest ends with 2: {refusal(found)}"
        return
    lines = list(news(recorded, program))
    yield from lines or ["ingest goes on with the logs that are there"]


def _fate(
    plan: OperatorPlan, state: Generation | None, recorded: Program, found: Sequence[Change]
) -> str:
    """Return what becomes of an output; ``state``: the generation of its state, if it has one."""
    reset = f"'tidemark reset PIPELINE --operator {plan.name}'"
    if any(plan.name in change.outputs for change in found):
        return f"is refused by ingest: {reset} accepts its change"
    if state is None or state.unused:
        new = "" if plan.log in recorded.logs else ", which is new"
        return f"is built from log {plan.log}{new}"
    if state.signature and state.signature != plan.state_signature:
        differences = signature_changes(state.signature, plan.state_signature)
        return f"stops: {differences}. {reset} starts it afresh from log {plan.log}"
    return "waits for ingest" if found else "goes on"
