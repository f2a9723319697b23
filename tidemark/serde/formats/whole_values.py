"""Values that are one column: text, or bytes."""

from tidemark.serde.formats.value_decoder import utf8_text
from tidemark.serde.records import Headers


class TextValues:
    """Decodes texts in UTF-8 to one member."""

    def __init__(self, name: str) -> None:
        """``name``: of the member."""
        self._name = name

    def decode(
        self, value: bytes, _key: bytes | None = None, _headers: Headers = None, /
    ) -> dict[str, str]:
        """Return the text."""
        return {self._name: utf8_text(value)}


class BytesValues:
    """Returns bytes as one member."""

    def __init__(self, name: str) -> None:
        """``name``: of the member."""
        self._name = name

    def decode(
        self, value: bytes, _key: bytes | None = None, _headers: Headers = None, /
    ) -> dict[str, bytes]:
        """Return the bytes."""
        return {self._name: value}
