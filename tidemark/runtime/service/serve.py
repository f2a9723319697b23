"""A service's start and end: environment, pipeline, and one line for an error that ends it."""

import logging
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from confluent_kafka import KafkaException

from tidemark.errors import ConfigurationError, InfrastructureError, TidemarkError
from tidemark.language.load import load_pipeline
from tidemark.plan.physical import Plan
from tidemark.runtime.client.broker_probe import BrokersAwayError
from tidemark.runtime.config import Config
from tidemark.runtime.faults import FAILED, STOPPED_BY_SETTINGS, explained
from tidemark.runtime.service import logs

_log = logging.getLogger("tidemark")


def serve(name: str, run: Callable[[Config, Plan], None]) -> None:
    """Run a service of the pipeline that PIPELINE names; end the process with its status.

    0: told to stop.  1: the infrastructure failed, or a fault of the program: start it again.
    2: settings, pipeline or recorded state are wrong: starting it again changes nothing.
    """
    try:
        config = Config.from_env()
        logs.set_up(config.log_level)
        _run(name, config, run)
    except TidemarkError as error:
        logs.set_up("ERROR")
        _log.error("%s: %s", name, error)
        sys.exit(STOPPED_BY_SETTINGS)


def _run(name: str, config: Config, run: Callable[[Config, Plan], None]) -> None:
    try:
        if not config.pipeline:
            raise ConfigurationError("PIPELINE is not set: name the module of the pipeline")
        run(config, load_pipeline(config.pipeline).plan())
    except (KafkaException, InfrastructureError) as error:
        away = isinstance(error, BrokersAwayError)
        cause = error.__cause__ if away else error
        assert isinstance(cause, Exception)
        line, status = explained(cause, config.user)
        if away and status == FAILED:
            _log.warning("%s: %s; no broker answered: it starts anew", name, line)
            _start_anew()
        _log.error("%s: %s", name, line)
        sys.exit(status)


def _start_anew() -> NoReturn:
    """Become a new program in the same process, with nothing of the old one but its settings.

    Nobody need start it again, and it waits for brokers (docs/decisions/0011).
    """
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
