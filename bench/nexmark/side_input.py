"""The query that looks values up in a file."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.nexmark.generator import BIDS
from bench.nexmark.query import RESULTS, Query, Streams
from tidemark import col

_NUMBERS = 10_000


def _q13(streams: Streams) -> None:
    schema = {"number": int, "value": str}
    numbers = streams.pipeline.static("numbers", str(_file()), key="number", schema=schema)
    bids = streams[BIDS].with_columns(number=col("auction") % _NUMBERS).key_by("number")
    bids.join(numbers).select("auction", "bidder", "price", "at", "value").to(RESULTS)


def _file() -> Path:
    """Return the file of numbers with their values, which is written unless it is there."""
    path = Path(tempfile.gettempdir()) / f"nexmark-{os.getuid()}-numbers.csv"
    if not path.is_file():
        lines = [f"{number},{number}" for number in range(_NUMBERS)]
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as whole:
            whole.write("\n".join(["number,value", *lines]))
        Path(whole.name).rename(path)
    return path


SIDE_INPUT: Mapping[str, Query] = {
    "q13": Query(
        "bids with the value of a number in a file",
        (BIDS,),
        _q13,
        f"select auction, bidder, price, ts, (auction % {_NUMBERS})::varchar from bids "
        "where ts >= w",
        'select auction, bidder, price, "at", value from results',
    ),
}
