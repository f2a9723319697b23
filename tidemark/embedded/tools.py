"""Runs Kafka's own command-line tools from the jars of the embedded broker.

Without `--bootstrap-server` they use the broker of the running stack.
"""

import os
import sys
from collections.abc import Sequence

from tidemark.embedded.broker import command
from tidemark.embedded.state import running_stack, state_folder
from tidemark.errors import ConfigurationError

_PACKAGE = "org.apache.kafka.tools."
_TOOLS = {
    "kafka-console-consumer": f"{_PACKAGE}consumer.ConsoleConsumer",
    "kafka-console-producer": f"{_PACKAGE}ConsoleProducer",
    "kafka-consumer-groups": f"{_PACKAGE}consumer.group.ConsumerGroupCommand",
    "kafka-topics": f"{_PACKAGE}TopicCommand",
}
_SERVER = "--bootstrap-server"


def tool(name: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line of a tool.

    Raises:
        ConfigurationError: no stack is running and no broker is given.
    """
    kafka_class = _TOOLS[name]
    informed = any(each.split("=")[0] in {_SERVER, "--help", "--version"} for each in arguments)
    if informed:
        return command(kafka_class, *arguments)
    stack = running_stack(state_folder())
    if stack is None:
        raise ConfigurationError(
            "no stack of this folder is running: start one (tidemark dev or make up), or give "
            f"{_SERVER}"
        )
    return command(kafka_class, _SERVER, stack.address, *arguments)


def main() -> None:
    """Replace this process by the tool that the first argument names."""
    name, *arguments = sys.argv[1:]
    try:
        runs = tool(name, arguments)
    except ConfigurationError as error:
        sys.stderr.write(f"{name}: {error}\n")
        sys.exit(2)
    os.execvp(runs[0], runs)


if __name__ == "__main__":
    main()
