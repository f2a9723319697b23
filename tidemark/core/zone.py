"""Time zones by their names, as the time zone database that polars is built with has them."""

import polars as pl


def is_zone(name: object) -> bool:
    """Whether ``name`` is a time zone's; "", which polars takes for UTC, names none."""
    if not isinstance(name, str) or not name:
        return False
    try:
        pl.Series([0]).cast(pl.Datetime("ms")).dt.replace_time_zone(name)
    except pl.exceptions.PolarsError:
        return False
    return True
