"""What bytes that should be text in UTF-8 probably are."""

BOM = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""

UTF_16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_LOOKS_LIKE_UTF_16 = "; it looks like UTF-16: write the records in UTF-8"


def utf_16_hint(value: bytes) -> str:
    """Return what a reason adds if a value begins like text in UTF-16; else an empty text."""
    half_zero = len(value) > 1 and (value[0] == 0) != (value[1] == 0)
    return _LOOKS_LIKE_UTF_16 if value.startswith(UTF_16_BOMS) or half_zero else ""
