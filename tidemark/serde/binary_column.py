"""Keys or values of messages as one column: one buffer and its offsets, no Python object each."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

T = TypeVar("T", bound=bytes | None)

_LAYOUT = pl.CompatLevel.oldest()


class BinaryColumn(Sequence[T], Generic[T]):
    """A sequence of bytes; Python objects are only made where it is read as one.

    ``array``: of type large_binary, with nulls if T has None; it may be a slice of a longer one.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array: pa.LargeBinaryArray) -> None:
        """Take an array."""
        self.array = array

    @classmethod
    def of(cls, values: Iterable[T]) -> "BinaryColumn[T]":
        """Return a column of these values."""
        return cls(_arrow(pl.Series(list(values), dtype=pl.Binary)))

    @classmethod
    def of_texts(cls, texts: pl.Series) -> "BinaryColumn[T]":
        """Return the UTF-8 bytes of a column of texts, without its name, which may be any text."""
        return cls(_arrow(texts.alias("")).view(pa.large_binary()))

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[T]:
        # polars makes the objects in a third of Arrow's time
        return iter(pl.Series(self.array, dtype=pl.Binary).to_list())

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> "BinaryColumn[T]": ...

    def __getitem__(self, at: int | slice) -> "T | BinaryColumn[T]":
        found = self.array[at]
        if isinstance(at, slice):
            return BinaryColumn(found)
        value: T = found.as_py()
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BinaryColumn) and bool(self.array.equals(other.array))

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:  # noqa: A002
        """Return the column as an array; pyarrow calls it."""
        return self.array if type is None else self.array.cast(type)

    @property
    def lengths_bytes(self) -> npt.NDArray[np.int64]:
        """The length of each value, Int64; 0 for null."""
        begin = self.array.offset
        offsets = np.frombuffer(self.array.buffers()[1], np.int64)
        lengths: npt.NDArray[np.int64] = np.diff(offsets[begin : begin + len(self) + 1])
        return lengths

    @property
    def size_bytes(self) -> int:
        """The length of all values together."""
        return int(self.lengths_bytes.sum())

    def filter(self, kept: npt.NDArray[np.bool_]) -> "BinaryColumn[T]":
        """Return the values where ``kept`` is true, in order."""
        return BinaryColumn(self.array.filter(_arrow(pl.Series(kept))))

    def merged(
        self, others: "BinaryColumn[T]", is_other: npt.NDArray[np.bool_]
    ) -> "BinaryColumn[T]":
        """Return the values of two columns in one; ``is_other``: where one of ``others`` goes."""
        places = np.empty(is_other.size, np.int64)
        places[~is_other] = np.arange(len(self))
        places[is_other] = np.arange(len(self), is_other.size)
        both = pa.concat_arrays([self.array, others.array])
        return BinaryColumn(both.take(_arrow(pl.Series(places))))


def _arrow(series: pl.Series) -> pa.Array:
    """Return a series as one array.

    ``pa.array`` would import pandas where it is installed: half a second of CPU in each process.
    """
    return series.rechunk().to_arrow(compat_level=_LAYOUT)
