"""The bound of a broadcast table: each partition holds all of its keys."""

from collections.abc import Sequence

from tidemark.core.operators.joins.versions import Versions
from tidemark.errors import TableTooLargeError


def require_bound(versions: Versions, key: Sequence[str], max_rows: int, operator: str) -> None:
    """Check the number of keys; versions that no row can reach may be dropped.

    Raises:
        TableTooLargeError: the table has too many keys.
    """
    if len(versions) <= max_rows:
        return
    versions.drop_unreachable()
    keys = versions.spans().select(key).n_unique()
    if keys > max_rows:
        raise TableTooLargeError(
            f"{operator}: the broadcast table has {keys:,} keys, more than max_rows="
            f"{max_rows:,}; each partition holds all of them. Raise max_rows in "
            "broadcast() and start again: nothing is lost"
        )
