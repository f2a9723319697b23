"""Cases that fail for now, each with what is missing.  The list only gets shorter."""

NOT_YET: dict[str, str] = {}
