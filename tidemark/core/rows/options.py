"""Checks of options that several functions of the language take."""

from typing import get_args

import polars as pl

from tidemark.errors import PipelineError


def require_boolean(value: object, what: str) -> None:
    """Raise PipelineError if ``value`` is not a Boolean; ``what`` names function and option."""
    if not isinstance(value, bool):
        raise PipelineError(f"{what}: {value!r} is not True or False")


def require_choice(value: object, choices: object, what: str) -> None:
    """Raise PipelineError if ``value`` is not one of a Literal type; ``what`` names the option."""
    if value not in get_args(choices):
        raise PipelineError(f"{what}: {value!r} is not one of {get_args(choices)}")


def require_count(value: object, what: str) -> None:
    """Raise PipelineError if ``value`` is not a positive integer; ``what`` names the option."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PipelineError(f"{what}: {value!r} is not a positive integer")


def require_zone(zone: object, what: str) -> None:
    """Raise PipelineError if ``zone`` is not a time zone; "" is not, although polars takes UTC."""
    if not isinstance(zone, str) or not zone or not _is_known(zone):
        raise PipelineError(f"{what}: zone {zone!r} is not a time zone such as 'Europe/Berlin'")


def _is_known(zone: str) -> bool:
    try:
        pl.Series([0]).cast(pl.Datetime("ms")).dt.replace_time_zone(zone)
    except pl.exceptions.PolarsError:
        return False
    return True
