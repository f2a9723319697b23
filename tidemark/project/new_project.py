"""Writes the files of a new project, from the templates of this package."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from tidemark.errors import ConfigurationError
from tidemark.plan.names import require_topic

_NAME = "@NAME@"
_TEMPLATE = files(__package__) / "template"

FILES: Mapping[str, str] = {
    "pipeline.py": "the pipeline: what is read, computed and published",
    "events.jsonl": "eight events to try it with",
    "test_pipeline.py": "its tests; they need no broker",
    "docker-compose.yml": "Kafka, PostgreSQL and the services in containers",
    ".env": "settings of docker-compose.yml",
    "Makefile": "the commands of the project; make lists them",
    ".gitignore": "what is not kept",
}
"""The files of a project, and what each is for."""


def new_project(folder: Path) -> None:
    """Write the files of a new project; the name of the folder is the name of the pipeline.

    Raises:
        ConfigurationError: the folder has files already, or cannot be written.
        PipelineError: its name is not legal for a pipeline.
    """
    name = require_topic(folder.absolute().name, f"init {folder}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigurationError(
                f"init {folder}: the folder has files already; name a new folder"
            )
        for file in FILES:
            text = (_TEMPLATE / f"{file.removeprefix('.')}.txt").read_text(encoding="utf-8")
            (folder / file).write_text(text.replace(_NAME, name), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"init {folder}: {error.strerror}") from error
