"""Starts a service from its environment, and ends it with a status and one line of error."""

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
from tidemark.runtime.faults import FAILED, STOPPED_BY_SETTINGS, as_typed, debugs, explained
from tidemark.runtime.service import logs
from tidemark.runtime.service.command import block_stop_signals

_log = logging.getLogger("tidemark")


def serve(name: str, run: Callable[[Config, Plan], None]) -> None:
    """Run a service of the pipeline that PIPELINE names; end the process with a status.

    * 0: a stop signal came.
    * 1: the infrastructure or the program failed; a restart may help.
    * 2: settings, pipeline or recorded state are wrong; a restart changes nothing.
    """
    config = None
    try:
        config = Config.from_env()
        logs.set_up(config.log_level)
        _run(name, config, run)
    except TidemarkError as error:
        logs.set_up("ERROR")
        line = str(error) if config is None else _as_typed(str(error), name, config)
        _log.error("%s: %s", name, line, exc_info=debugs())
        sys.exit(STOPPED_BY_SETTINGS)


def _as_typed(line: str, name: str, config: Config) -> str:
    return as_typed(line, config.pipeline, name, config.bootstrap_servers)


def _run(name: str, config: Config, run: Callable[[Config, Plan], None]) -> None:
    try:
        if not config.pipeline:
            raise ConfigurationError("PIPELINE is not set: set it to the module of the pipeline")
        run(config, load_pipeline(config.pipeline).plan())
    except (KafkaException, InfrastructureError) as error:
        away = isinstance(error, BrokersAwayError)
        cause = error.__cause__ if away else error
        assert isinstance(cause, Exception)
        line, status = explained(cause, config.user)
        if away and status == FAILED:
            _log.warning("%s: %s; no broker answered, so it starts anew", name, line)
            _start_again()
        _log.error("%s: %s", name, _as_typed(line, name, config), exc_info=debugs())
        sys.exit(status)


def _start_again() -> NoReturn:
    """Replace the program by a new one in the same process, with the same settings.

    So no supervisor is needed, and the new program waits for brokers (docs/decisions/0011).  A stop
    signal that comes while it imports its modules ends it with status 0, as at the first start.
    """
    sys.stderr.flush()
    block_stop_signals()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
