"""Two processes with one id: the later one wins, once (docs/operations.md, "Groups and replicas").

A new transactional producer fences every other process with the same id, and that process ends.  If
a supervisor restarts it, it would fence the first one in turn, and so on forever.

So each process writes its id, the time of its take-over, its host and its pid into the client id of
its group member.  A starting process looks for members with its own id:

* The other member took over more than a minute ago, or never: this process takes over.
* It took over within the last minute: this process waits.  If the member is still there when the
  session of a dead process would have expired, it is alive, and this process gives way.
* It is dead and of the same host: it does not count.
"""

import os
import socket
import time
from collections.abc import Callable, Sequence

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient, MemberDescription

from tidemark.errors import ConfigurationError
from tidemark.runtime.client.clients import session_timeout_ms
from tidemark.runtime.client.membership import has_moved
from tidemark.runtime.config import Config
from tidemark.runtime.retry import retry

_TURN_MS = 60_000
_MARGIN_S = 3.0
_PAUSE_S = 0.5
_ANSWER_S = 10.0
_WITHOUT_MEMBERS = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


def client_id(process_id: str, took_over_ms: int) -> str:
    """Return the client id of this process in its group; ``took_over_ms``: 0 if it is the first."""
    return f"{process_id}@{took_over_ms}@{socket.gethostname()}@{os.getpid()}"


def give_way(
    config: Config,
    admin: AdminClient,
    group: str,
    process_id: str,
    now_ms: int,
    on_wait: Callable[[str], None],
) -> int:
    """Return the time of the take-over: ``now_ms``, or 0 if no other process has this id.

    Raises:
        ConfigurationError: another process with this id took over in the last minute and is alive.
    """
    deadline_s = time.monotonic() + session_timeout_ms(config) / 1000 + _MARGIN_S
    while others := _others(admin, group, process_id):
        if max(others) < now_ms - _TURN_MS:
            return now_ms
        if time.monotonic() > deadline_s:
            raise ConfigurationError(
                f"another process uses id {process_id}: give each process of a service a "
                "TIDEMARK_SLOT of its own"
            )
        on_wait(f"waiting until a process with the same id {process_id} has left its group")
        time.sleep(_PAUSE_S)
    return 0


def _others(admin: AdminClient, group: str, process_id: str) -> list[int]:
    """Return the take-over times, in ms UTC, of the living members with this id."""
    # On a fresh cluster, describing a group without members takes until the request times out.
    if group not in _groups(admin):
        return []

    def ask() -> Sequence[MemberDescription]:
        asked = admin.describe_consumer_groups([group], request_timeout=_ANSWER_S)
        members: Sequence[MemberDescription] = asked[group].result().members
        return members

    try:
        members = retry(ask, has_moved, for_s=_ANSWER_S, pause_s=_PAUSE_S)
    except KafkaException:
        return []
    names = [member.client_id.split("@") for member in members]
    return [
        int(took_over_ms)
        for name, took_over_ms, host, pid in (name for name in names if len(name) == 4)
        if name == process_id and not _is_dead(host, int(pid))
    ]


def _is_dead(host: str, pid: int) -> bool:
    """Return whether a process of this host has ended.

    A member with our own pid is an earlier process: in a container the first pid is always 1.
    """
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
    """Return the groups that may have members.

    All groups are listed and filtered here: if a client asks by state, the broker leaves out groups
    of KIP-848.  While such a group reconciles its members, clients have no name for its state.
    """
    listed = admin.list_consumer_groups(request_timeout=_ANSWER_S).result()
    return {group.group_id for group in listed.valid if group.state not in _WITHOUT_MEMBERS}
