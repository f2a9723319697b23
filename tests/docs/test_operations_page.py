"""The table of settings in docs/operations.md says what Config reads, no more and no less."""

import re
from pathlib import Path

from tidemark.runtime.config import Config

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
ROW = re.compile(r"^\| `([A-Z_]+)` \| ([^|]*) \|", re.MULTILINE)


def settings() -> dict[str, str]:
    section = PAGE.split("\n## Settings\n")[1].split("\n## ")[0]
    return {name: default.strip().strip("`") for name, default in ROW.findall(section)}


def test_every_setting_is_in_the_table():
    fields = {str(field.validation_alias) for field in Config.model_fields.values()} - {"None"}
    assert set(settings()) == fields


def test_the_table_has_the_defaults():
    said = settings()
    for field in Config.model_fields.values():
        name, default = str(field.validation_alias), field.default
        if name in said and field.default_factory is None:
            shown = "" if default is None else str(default)
            assert said[name] == (shown.lower() if default is False else shown or "none"), name
