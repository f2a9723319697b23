"""What encodes the results of operators: the same bytes, whoever writes them."""

from collections.abc import Iterable

from tidemark.plan import OperatorPlan
from tidemark.runtime.config import Config
from tidemark.runtime.running import avro_types, results_of
from tidemark.runtime.schema_registry import with_registry
from tidemark.runtime.serde.avro_results import AvroResults
from tidemark.runtime.serde.json_results import JsonResults

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
        with_registry(config, avro_types(each, encoder))
    return found
