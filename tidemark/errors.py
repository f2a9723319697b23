"""The errors that users of Tidemark may see.

TidemarkError
├── PipelineError       the pipeline is not valid; raised when it is built
├── ConfigurationError  a setting or the environment is wrong; stops the start
├── UserCodeError       a function of the pipeline failed, and it was to stop then
├── TableTooLargeError  a broadcast table has more keys than it may have
└── StateError          recorded state and offsets contradict each other; never repaired silently
    └── UnreadableRowsError  rows of the log have other types than the pipeline declares

InfrastructureError     something outside of the process failed: the process ends and restarts
"""

import re
from urllib.parse import unquote


class TidemarkError(Exception):
    """Base of the errors that a user can correct."""


class PipelineError(TidemarkError):
    """A pipeline cannot be built; names the operator or column, and the value."""


class ConfigurationError(TidemarkError):
    """A setting or the environment stops the start; names the setting and the value."""


class UserCodeError(TidemarkError):
    """A user's function with ``on_error="stop"`` failed; names operator, key, row and exception."""


class TableTooLargeError(TidemarkError):
    """A broadcast table has more keys than it may have; names the join and the remedy."""


class StateError(TidemarkError):
    """Recorded state does not match its offsets; names topic, partition and the remedy."""


class UnreadableRowsError(StateError):
    """Rows of a log whose types do not widen to the pipeline's: names the column and the source."""


class InfrastructureError(Exception):
    """Something outside of this process failed, or was taken from it; a restart may help."""


def without_password(address: str, text: str | None = None) -> str:
    """Return ``text``, by default ``address``, with the address's secrets replaced by ``***``.

    A secret is what follows the user before the last ``@``, with or without a scheme, and each
    value of the query.  It is found as written and percent-decoded, in addresses of any form.
    """
    shown = address if text is None else text
    _, scheme, rest = address.partition("://")
    place, _, query = (rest if scheme else address).partition("?")
    user, _, password = place.rpartition("@")[0].partition(":")
    values = [pair.partition("=")[2] or pair for pair in re.split("[&;#]", query)]
    secrets = {password or user, *values}
    for secret in sorted(secrets | set(map(unquote, secrets)), key=len, reverse=True):
        shown = shown.replace(secret, "***") if secret else shown
    return shown
