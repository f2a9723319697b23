"""Expressions as a user writes them, out of the text that polars prints.

The record of a program has what polars prints: ``[(col("kind")) != ("miss")]``.  An error shows
``col("kind") != "miss"``.  The text is for people alone; programs are compared by what is recorded.
"""

import re

_TEXT = re.compile(r'"[^"]*"')
_KEPT = re.compile(r"<(\d+)>")
_DYNAMIC = re.compile(r"\bdyn (?:int|float|str): ")
_ARGUMENTS = re.compile(r"(\.\w+)\(\[((?:\[[^][]*\]|[^][])*)\]\)")
_BINARY = re.compile(r"\[\(([^][]*?)\) ([^\w\s()]{1,3}) \(([^][]*?)\)\]")
_FIELD = re.compile(r"\.field_by_name\((\w+)\)\(\)")
_METHODS = {".strict_cast(": ".cast(", ".not()": ".not_()", ".negate()": ".neg()"}

# Marks of a binary operation and of a list while the text is rewritten.
_OPEN, _CLOSE, _LIST, _LIST_END = "\1", "\2", "\3", "\4"
_NEEDLESS = re.compile(rf"(^|\(|, ){_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}(?=$|\)|, )")


def in_python(text: str) -> str:
    """Return a text with the expressions in it as a user writes them, as far as they are known."""
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return f"<{len(kept) - 1}>"

    text = _DYNAMIC.sub("", _TEXT.sub(keep, text))
    before = ""
    while before != text:
        before = text
        text = _ARGUMENTS.sub(_without_list, text)
        text = _BINARY.sub(rf"{_OPEN}\1 \2 \3{_CLOSE}", text)
    text = _FIELD.sub(r'.field("\1")', text)
    for printed, written in _METHODS.items():
        text = text.replace(printed, written)
    text = _with_parentheses(text)
    return _KEPT.sub(lambda found: kept[int(found[1])], text)


def _without_list(found: re.Match[str]) -> str:
    arguments = found[2].replace("[", _LIST).replace("]", _LIST_END)
    return f"{found[1]}({arguments})"


def _with_parentheses(text: str) -> str:
    """Put parentheses where a marked operation is a part of another one."""
    inner = re.compile(rf"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")
    while _OPEN in text:
        text = _NEEDLESS.sub(r"\1\2", text)
        text = inner.sub(r"(\1)", text, count=1)
    return text.replace(_LIST, "[").replace(_LIST_END, "]")
