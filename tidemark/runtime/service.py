"""A service's start and end: environment, pipeline, and one line for an error that ends it."""

import logging
import sys
from collections.abc import Callable

from confluent_kafka import KafkaException

from tidemark.errors import ConfigurationError, TidemarkError
from tidemark.load import load_pipeline
from tidemark.plan import Plan
from tidemark.runtime import logs
from tidemark.runtime.config import Config
from tidemark.runtime.group import PartitionsLostError
from tidemark.runtime.process import explained

_log = logging.getLogger("tidemark")

STOPPED_BY_SETTINGS = 2
"""Exit status where starting again cannot help."""


def serve(name: str, run: Callable[[Config, Plan], None]) -> None:
    """Run a service of the pipeline that PIPELINE names; end the process with its status.

    0: told to stop.  1: the infrastructure failed, or a fault of the program: start it again.
    2: settings, pipeline or recorded state are wrong: starting it again changes nothing.
    """
    try:
        config = Config.from_env()
        logs.set_up(config.log_level)
        if not config.pipeline:
            raise ConfigurationError("PIPELINE is not set: name the module of the pipeline")
        run(config, load_pipeline(config.pipeline).plan())
    except TidemarkError as error:
        logs.set_up("ERROR")
        _log.error("%s: %s", name, error)
        sys.exit(STOPPED_BY_SETTINGS)
    except (KafkaException, PartitionsLostError) as error:
        _log.error("%s: %s", name, explained(error))
        sys.exit(1)
