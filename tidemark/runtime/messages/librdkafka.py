"""The C functions of the Kafka client that Python has loaded, and the handle of one of its objects.

The Python client is a module of C around librdkafka.  Its objects begin with the pointer to
librdkafka's handle, which Python does not show.  So the pointer is read from the object's memory,
and used only if the client's name is found behind it.
"""

import ctypes
from functools import cache
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, cimpl

from tidemark import native
from tidemark.runtime.config import Config

_ADDRESS, _TEXT = ctypes.c_void_p, ctypes.c_char_p
_NUMBER, _COUNT = ctypes.c_int32, ctypes.c_int64

_FUNCTIONS = {
    "rd_kafka_name": (_TEXT, [_ADDRESS]),
    "rd_kafka_err2str": (_TEXT, [_NUMBER]),
    "rd_kafka_topic_name": (_TEXT, [_ADDRESS]),
    "rd_kafka_topic_new": (_ADDRESS, [_ADDRESS, _TEXT, _ADDRESS]),
    "rd_kafka_topic_destroy": (None, [_ADDRESS]),
    "rd_kafka_message_errstr": (_TEXT, [_ADDRESS]),
    "rd_kafka_queue_new": (_ADDRESS, [_ADDRESS]),
    "rd_kafka_queue_get_consumer": (_ADDRESS, [_ADDRESS]),
    "rd_kafka_queue_get_partition": (_ADDRESS, [_ADDRESS, _TEXT, _NUMBER]),
    "rd_kafka_queue_forward": (None, [_ADDRESS, _ADDRESS]),
    "rd_kafka_queue_destroy": (None, [_ADDRESS]),
}

_OWN_FUNCTIONS = {
    "tidemark_reader_new": (_ADDRESS, [_ADDRESS, _ADDRESS]),
    "tidemark_reader_free": (None, [_ADDRESS]),
    "tidemark_read": (ctypes.c_int, [_ADDRESS, ctypes.c_int, _COUNT, _ADDRESS]),
    "tidemark_copy": (None, [_ADDRESS, _ADDRESS]),
    "tidemark_failed": (_ADDRESS, [_ADDRESS, _COUNT]),
    "tidemark_release": (None, [_ADDRESS]),
    "tidemark_produce": (
        _COUNT,
        [_ADDRESS, _ADDRESS, _NUMBER, _ADDRESS, _ADDRESS, _COUNT, _COUNT, _ADDRESS],
    ),
}

_CALLED_BY_C = (
    "rd_kafka_consume_batch_queue",
    "rd_kafka_message_destroy",
    "rd_kafka_message_timestamp",
    "rd_kafka_message_headers",
    "rd_kafka_header_get_all",
    "rd_kafka_produce_batch",
)
"""The functions of ``Librdkafka`` in tidemark/native/librdkafka.h, in its order."""

_UNKNOWN = "it does not know this version of the Kafka client"


class Bytes(ctypes.Structure):
    """``Bytes`` of tidemark/native/librdkafka.h: the addresses of a column."""

    _fields_ = (
        ("data", _ADDRESS),
        ("offsets", _ADDRESS),
        ("valid", _ADDRESS),
        ("first", _COUNT),
    )


class Clients:
    """The functions of librdkafka and of the native library: ``rd_kafka_...``, ``tidemark_...``."""

    def __init__(self, native: ctypes.CDLL) -> None:
        """Look the functions up.

        Raises:
            AttributeError: librdkafka lacks one of them.
        """
        client = ctypes.CDLL(cimpl.__file__)  # finds the symbols of librdkafka too, which it needs
        for functions, where in ((_FUNCTIONS, client), (_OWN_FUNCTIONS, native)):
            for name, (result, arguments) in functions.items():
                function = getattr(where, name)
                function.restype, function.argtypes = result, arguments
                setattr(self, name, function)
        addresses = [ctypes.cast(getattr(client, name), _ADDRESS) for name in _CALLED_BY_C]
        self.table = (_ADDRESS * len(addresses))(*addresses)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name}: no function of the client")


@cache
def clients() -> Clients | None:
    """Return the functions, None without the native library or with another client."""
    if native.library is None:
        return None
    try:
        return Clients(native.library)
    except (AttributeError, OSError):
        return None


class Handle(NamedTuple):
    """The functions, and the address of librdkafka's handle of one client."""

    functions: Clients
    address: int


def handle_of(config: Config, client: Consumer | Producer, client_id: str) -> Handle | str:
    """Return the handle of a client, or why the native library does not work with it.

    librdkafka names a client by its id, its kind and a number: ``id#consumer-1``.
    """
    if config.native == "off":
        return f"{native.VARIABLE}=off"
    functions = clients()
    if functions is None:
        return native.missing or _UNKNOWN
    address = ctypes.c_void_p.from_address(id(client) + object.__basicsize__).value
    if address is None:
        return _UNKNOWN
    name = functions.rd_kafka_name(address).decode()
    kind = "consumer" if isinstance(client, Consumer) else "producer"
    return Handle(functions, address) if name.startswith(f"{client_id}#{kind}-") else _UNKNOWN
