"""Which topics of a cluster belong to the sources of a plan: those it names, and those that match.

A pattern takes neither internal topics (``__``) nor the pipeline's own.  These are the topics of
the plan, and those that an earlier form of the pipeline may have left.  The latter begin with the
name of the pipeline, and end as logs, late rows and changelogs do or have a changelog.
See docs/semantics.md, "Several topics".
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidemark.plan.physical import Plan, SourcePlan

_INTERNAL = "__"
_OWN_ENDS = (".log", ".late", ".changelog")


@dataclass(frozen=True)
class MatchedTopics:
    """The raw topics of a plan in a cluster.

    ``sources``: by topic, the source it belongs to, in the order of the plan.  ``disputed``: by
    topic, the names of the sources whose patterns match it; none of them reads it.  ``own``: topics
    that a pattern matches, but that the pipeline or the brokers write.  ``missing``: topics that
    the plan names and that are not there.  ``unmatched``: names of patterns without a topic.
    """

    sources: Mapping[str, SourcePlan]
    disputed: Mapping[str, tuple[str, ...]]
    own: tuple[str, ...]
    missing: tuple[str, ...]
    unmatched: tuple[str, ...]

    def disputes(self) -> list[str]:
        """Return what is wrong with each disputed topic, and the remedy."""
        return [
            f"topic {topic} belongs to sources {' and '.join(names)}: change a pattern, so that "
            "one of them matches it"
            for topic, names in self.disputed.items()
        ]

    def waits(self) -> list[str]:
        """Return what keeps sources from topics, a text for each fault."""
        return [
            *(f"source {name} matches no topic yet" for name in self.unmatched),
            *self.disputes(),
        ]

    def lines(self) -> list[str]:
        """Return which topics the patterns of the plan match, and which they do not take."""
        of_source: dict[str, list[str]] = {}
        for topic, source in self.sources.items():
            if topic not in source.named_topics:
                of_source.setdefault(source.name, []).append(topic)
        lines = [f"source {name} reads {', '.join(topics)}" for name, topics in of_source.items()]
        if self.own:
            lines.append(f"no source reads the pipeline's own topics: {', '.join(self.own)}")
        return [*lines, *self.waits()]


def matched_topics(plan: Plan, there: Collection[str]) -> MatchedTopics:
    """Return the raw topics of a plan; ``there``: the topics of the cluster."""
    named = plan.named_topics
    found: dict[str, SourcePlan] = {}
    disputed: dict[str, tuple[str, ...]] = {}
    own = []
    for source in plan.sources:
        for topic in sorted(there):
            if not source.reads(topic):
                continue
            readers = tuple(each.name for each in plan.sources if each.reads(topic))
            if topic not in named and _is_own(plan, topic, there):
                own.append(topic)
            elif len(readers) > 1:
                disputed[topic] = readers
            else:
                found[topic] = source
    read = {source.name for source in found.values()}
    return MatchedTopics(
        found,
        disputed,
        tuple(dict.fromkeys(own)),
        tuple(topic for topic in named if topic not in there),
        tuple(
            each.name for each in plan.sources if not each.named_topics and each.name not in read
        ),
    )


def _is_own(plan: Plan, topic: str, there: Collection[str]) -> bool:
    """Return whether the pipeline or the brokers write a topic; ``there``: of the cluster."""
    if topic.startswith(_INTERNAL):
        return True
    if not topic.startswith(f"{plan.pipeline}."):
        return False
    written = {plan.dead_letters, plan.retried, plan.generations, plan.stats}
    for operator in plan.operators:
        written.update(operator.topics)
    return topic in written or topic.endswith(_OWN_ENDS) or f"{topic}.changelog" in there
