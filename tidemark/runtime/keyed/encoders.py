"""What encodes the results of operators: the same bytes, whoever writes them."""

from collections.abc import Iterable

from tidemark.plan.physical import OperatorPlan
from tidemark.runtime.client.schema_registry import with_registry
from tidemark.runtime.config import Config
from tidemark.serde.avro import AvroType
from tidemark.serde.avro_results import AvroResults
from tidemark.serde.json_results import JsonResults

Encoder = JsonResults | AvroResults


def encoders(config: Config, operators: Iterable[OperatorPlan]) -> dict[str, Encoder]:
    """Return the encoder of each operator, by name; their schemas are registered, where asked for.

    Raises:
        ConfigurationError: the registry refuses a schema.
        InfrastructureError: it cannot be reached.
    """
    found = {}
    for each in operators:
        found[each.operator.name] = encoder = results_of(each)
        with_registry(config, _avro_types(each, encoder))
    return found


def results_of(plan: OperatorPlan) -> Encoder:
    """Return what encodes an operator's panes and late rows."""
    operator = plan.operator
    if plan.format == "json":
        return JsonResults(operator.key, list(plan.values), list(operator.columns))
    key = {name: operator.columns[name] for name in operator.key}
    return AvroResults(plan.results, key, plan.values, operator.columns, plan.identity)


def _avro_types(plan: OperatorPlan, results: Encoder) -> dict[str, AvroType]:
    """Return what an operator writes as Avro, by topic."""
    if isinstance(results, JsonResults):
        return {}
    return {plan.results: results.pane_type, plan.late: results.late_type}
