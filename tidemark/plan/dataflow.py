"""The dataflow of a pipeline: its sources and outputs, and the topics that they take."""

from dataclasses import dataclass, field

from tidemark.core.time.raw_topics import covers
from tidemark.errors import PipelineError
from tidemark.plan.logical import SIDES, Node, RulesStage
from tidemark.plan.names import generations_topic, retried_topic, source_text, stats_topic
from tidemark.plan.outputs import AnyOutput, JoinOutput, PatternOutput

Paths = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass
class Dataflow:
    """The sources and outputs of a pipeline, in the order in which they were declared."""

    name: str
    partitions: int
    sources: list[Node] = field(default_factory=list)
    outputs: list[AnyOutput] = field(default_factory=list)
    keyed_nodes: dict[tuple[Node, Paths], Node] = field(default_factory=dict)
    """Nodes with columns of keys added, by node and paths: the same key gives the same stream."""

    @property
    def own_topics(self) -> tuple[str, ...]:
        """The topics of the whole pipeline, of no source and no output."""
        own = generations_topic(self.name), retried_topic(self.name)
        return self.dead_letters, self.stats, *own

    @property
    def dead_letters(self) -> str:
        """The topic of dead letters."""
        return f"{self.name}.dead-letters"

    @property
    def stats(self) -> str:
        """The topic of the statistics of services."""
        return stats_topic(self.name)

    def add_source(self, node: Node) -> None:
        """Add a source; raise PipelineError if the pipeline already reads one of its topics."""
        assert node.source is not None
        topics = node.source.topics
        what = f"source({source_text(topics)})"
        taken = self.topics()
        if any(topic in taken for topic in topics):
            raise PipelineError(
                f"{what}: the pipeline already has this topic; use the existing stream"
            )
        for other in (each.source.topics for each in self.sources if each.source):
            both = [
                *(topic for topic in topics if covers(other, topic)),
                *(topic for topic in other if covers(topics, topic)),
            ]
            if both:
                raise PipelineError(
                    f"{what}: source({source_text(other)}) reads {both[0]} too, and a topic may "
                    "belong to one source only; use the existing stream, or change a pattern"
                )
        self.sources.append(node)

    def add_output(self, output: AnyOutput) -> None:
        """Add an output; raise PipelineError if one of its topics is taken."""
        taken = self.topics()
        for topic in topics_of(self.name, output):
            if topic in taken:
                raise PipelineError(
                    f"to({output.name!r}): the pipeline already has topic {topic!r}"
                )
        self.outputs.append(output)

    def topics(self) -> set[str]:
        """Return all topics so far: raw topics, topics of outputs and of the whole pipeline."""
        topics = {topic for node in self.sources for topic in node.topics()}
        topics.update(self.own_topics)
        for output in self.outputs:
            topics.update(topics_of(self.name, output))
        return topics


def output_topics(pipeline: str, name: str) -> tuple[str, str, str]:
    """Return the topics of an output: results, late rows, changelog."""
    results = f"{pipeline}.{name}"
    return results, f"{results}.late", f"{results}.changelog"


def topics_of(pipeline: str, output: AnyOutput) -> tuple[str, ...]:
    """Return the topics of an output, as ``output_topics``; late rows of joins have one by side."""
    results, late, changelog = output_topics(pipeline, output.name)
    if isinstance(output, JoinOutput):
        return results, *(f"{late}-{side}" for side in SIDES), changelog
    if isinstance(output, PatternOutput) and isinstance(output.stage, RulesStage):
        return results, late, f"{late}-rules", changelog
    return results, late, changelog
