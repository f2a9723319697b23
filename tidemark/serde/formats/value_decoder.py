"""The contract of a format: the bytes of a record to a Python value (docs/formats.md)."""

from typing import Any, Protocol

from tidemark.serde.formats.text_encoding import utf_16_hint
from tidemark.serde.records import Headers


class UnreadableValueError(ValueError):
    """A value that is not of its format; the text is the reason of the dead letter."""


class ValueDecoder(Protocol):
    """Decodes the values of one source; the source's schema then chooses columns."""

    def decode(self, value: bytes, key: bytes | None = None, headers: Headers = None, /) -> Any:
        """Return a mapping by member name, or a list of mappings: each is a row.

        An empty list is blank.

        Raises:
            UnreadableValueError: the bytes are not of the format.
            InfrastructureError: a schema is needed that cannot be fetched at present.
        """


def utf8_text(value: bytes) -> str:
    """Return a value in UTF-8 as text.

    Raises:
        UnreadableValueError: it is not UTF-8.
    """
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise UnreadableValueError(f"not UTF-8 (byte {error.start}){utf_16_hint(value)}") from None
