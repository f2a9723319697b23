"""Errors a user of Tidemark may meet.

TidemarkError
├── PipelineError       the pipeline as written cannot mean anything; raised when it is built
├── ConfigurationError  a setting or the environment is wrong; stops the start
└── StateError          recorded state and offsets contradict each other; never healed silently
    └── UnreadableRowsError  rows of the log have other columns than the pipeline declares

InfrastructureError     what a process works with failed: it ends, and is started again
"""

from urllib.parse import urlsplit


class TidemarkError(Exception):
    """Base of all errors raised on purpose."""


class PipelineError(TidemarkError):
    """A pipeline that cannot be built: names the operator or column and the value."""


class ConfigurationError(TidemarkError):
    """A setting or environment that stops the start: names the setting and the value."""


class StateError(TidemarkError):
    """Recorded state that does not fit its offsets: names topic, partition and what to do."""


class UnreadableRowsError(StateError):
    """Rows of a log that do not have the pipeline's columns: names the column and the source."""


class InfrastructureError(Exception):
    """What failed is outside of this process, or was taken from it: starting again may help."""


def without_password(address: str, text: str | None = None) -> str:
    """Return ``text``, or the address itself, with the address's password replaced by ``***``."""
    password = urlsplit(address).password
    shown = address if text is None else text
    return shown.replace(f":{password}@", ":***@") if password else shown
