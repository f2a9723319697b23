"""Cases that fail for now, each with what is missing.  The list only gets shorter."""

NOT_YET: dict[str, str] = {
    "holistic-median-01-spark": "median()",
}
