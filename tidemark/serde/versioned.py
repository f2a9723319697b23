"""JSON values with a version: what a newer Tidemark has written is refused, with the reason."""

from typing import Protocol, TypeVar

import msgspec

from tidemark.errors import StateError


class Versioned(Protocol):
    """A value of JSON that names the version of its form."""

    @property
    def version(self) -> int:
        """The version; a higher one may have another meaning."""


AnyVersioned = TypeVar("AnyVersioned", bound=Versioned)


def decode_versioned(
    data: bytes | str, kind: type[AnyVersioned], newest: int, what: str
) -> AnyVersioned:
    """Return the value in JSON text of a version up to ``newest``; ``what`` names it in errors.

    Raises:
        StateError: the text is not such a value, or of a newer version.
    """
    try:
        value = msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise StateError(f"{what} cannot be read: {error}: {data!r:.200}") from None
    if value.version > newest:
        raise StateError(
            f"{what} has version {value.version}, this Tidemark reads up to {newest}: install the "
            "newer Tidemark that wrote it"
        )
    return value
