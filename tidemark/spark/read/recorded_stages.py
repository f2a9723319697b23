"""Which stages a replay can read from the logs: those whose rows there are of the same program.

docs/replay.md, "Chains", says what a replay does with the others.
"""

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient

from tidemark.plan.changes import signature_changes, stream_changes, stream_names, stream_of
from tidemark.plan.physical import DerivedPlan, Plan
from tidemark.plan.placement import comparable_program
from tidemark.plan.program import Program
from tidemark.runtime.client.generations import Generation, Key, newest_generations
from tidemark.runtime.client.recorded_program import recorded_program
from tidemark.runtime.config import Config


def changed_stages(config: Config, admin: AdminClient, plan: Plan) -> dict[str, str]:
    """Return the stages whose rows in the logs are of another program, each with the difference.

    ``plan``: placed for a replay.  A stage after a changed one has changed, too.
    """
    if not plan.derived:
        return {}
    recorded = recorded_program(config, admin, plan.generations)
    generations = newest_generations(config, admin, plan.generations)
    return changes_of_stages(plan, recorded, generations)


def changes_of_stages(
    plan: Plan, recorded: Program | None, generations: Mapping[Key, Generation]
) -> dict[str, str]:
    """Return the stages that differ from the recorded ones, each with the difference as text.

    ``generations``: they have the signature of each operator's state.
    """
    program = None if recorded is None else comparable_program(plan, recorded)
    found: dict[str, str] = {}
    for derived in plan.derived:
        differences = [
            _of_operator(plan, derived, generations, found),
            "" if program is None or recorded is None else _of_rows(derived, recorded, program),
        ]
        if any(differences):
            found[derived.operator] = "; ".join(filter(None, differences))
    return found


def _of_operator(
    plan: Plan,
    derived: DerivedPlan,
    generations: Mapping[Key, Generation],
    changed: Mapping[str, str],
) -> str:
    operator = next(each for each in plan.operators if each.name == derived.operator)
    sources = operator.operator.sources
    before = [
        each.operator
        for each in plan.derived
        if each.source in sources and each.operator in changed
    ]
    if before:
        return f"it reads results of {', '.join(before)}"
    known = [each for (name, _), each in generations.items() if name == derived.operator]
    if not known:
        return "it is new"
    for each in known:
        if each.signature and each.signature != operator.state_signature:
            return signature_changes(each.signature, operator.state_signature)
    return ""


def _of_rows(derived: DerivedPlan, recorded: Program, program: Program) -> str:
    """Return what differs between the row operators after a stage and the recorded ones."""
    known = stream_names(recorded)
    for name in derived.graph.streams:
        if name not in known:
            return f"it hands on another stream, {name}"
        old, new = stream_of(recorded, name), stream_of(program, name)
        for change in stream_changes(f"stream {name}", old, new):
            if recorded.polars == program.polars or not change.expressions:
                return str(change)
    return ""
