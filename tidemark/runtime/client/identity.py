"""Two processes with one id: the later one wins, once (docs/operations.md, "Groups and replicas").

Starting a transactional producer ends the transactions of any other process of the same id, and so
the process.  If something starts that one again, it would in turn end the first, and so on for
ever.  Members of a group are known by their client id, in which a process tells its own id, when it
took over from another, and where it is.  So one that finds another with its id, which took over
within the last minute and is still there when the session of a dead one would be over, knows that
it was replaced, and gives way.  A dead one of the same host need not be waited for.
"""

import os
import socket
import time
from collections.abc import Callable

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from tidemark.errors import ConfigurationError
from tidemark.runtime.client.clients import session_timeout_ms
from tidemark.runtime.config import Config

_TURN_MS = 60_000
_MARGIN_S = 3.0
_PAUSE_S = 0.5
_ANSWER_S = 10.0
_WITHOUT_MEMBERS = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


def client_id(process_id: str, took_over_ms: int) -> str:
    """Return the name under which this process is a member of its group; 0: it is the first."""
    return f"{process_id}@{took_over_ms}@{socket.gethostname()}@{os.getpid()}"


def give_way(
    config: Config,
    admin: AdminClient,
    group: str,
    process_id: str,
    now_ms: int,
    waiting: Callable[[str], None],
) -> int:
    """Go on where this process is the only one of its id, or the first that comes after another.

    Returns:
        when it takes over, which is now, or 0 where it is the only one.

    Raises:
        ConfigurationError: another process took over less than a minute ago, and lives.
    """
    deadline_s = time.monotonic() + session_timeout_ms(config) / 1000 + _MARGIN_S
    while others := _others(admin, group, process_id):
        if max(others) < now_ms - _TURN_MS:
            return now_ms
        if time.monotonic() > deadline_s:
            raise ConfigurationError(
                f"another process uses id {process_id}: each process of a service needs a "
                "TIDEMARK_SLOT of its own"
            )
        waiting(f"waiting until a process with the same id {process_id} has left its group")
        time.sleep(_PAUSE_S)
    return 0


def _others(admin: AdminClient, group: str, process_id: str) -> list[int]:
    """Return when the members of the group with this id took over, in ms."""
    # To describe a group without members takes until the request times out on a fresh cluster.
    if group not in _groups(admin):
        return []
    described = admin.describe_consumer_groups([group], request_timeout=_ANSWER_S)[group]
    try:
        members = described.result().members
    except KafkaException:
        return []
    names = [member.client_id.split("@") for member in members]
    return [
        int(took_over_ms)
        for name, took_over_ms, host, pid in (name for name in names if len(name) == 4)
        if name == process_id and not _is_dead(host, int(pid))
    ]


def _is_dead(host: str, pid: int) -> bool:
    """Whether a process is of this host and has ended; a container's first is always number 1."""
    if host != socket.gethostname():
        return False
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _groups(admin: AdminClient) -> set[str]:
    """Return the groups with members: asked for by state, a broker leaves out those of KIP-848.

    While such a group brings its members to what it has assigned, it is in a state that clients
    have no name for.
    """
    listed = admin.list_consumer_groups(request_timeout=_ANSWER_S).result()
    return {group.group_id for group in listed.valid if group.state not in _WITHOUT_MEMBERS}
