"""What listens at an address: a client without TLS gets no reason from a port that speaks TLS."""

import re
import socket
import ssl
from enum import Enum

_CONNECT_S = 3.0
_DEFAULT_PORT = 9092
_ADDRESS = re.compile(r"(?:[A-Za-z_]+://)?\[?(?P<host>.*?)\]?(?::(?P<port>[0-9]+))?")


class Listener(Enum):
    """What listens at an address, as far as a client can see."""

    CLOSED = "no connection"
    SPEAKS_TLS = "a TLS listener"
    OTHER = "connections open, but without TLS"


def listener_at(address: str) -> Listener:
    """Return what listens at ``HOST:PORT``; tries a TLS handshake without any check."""
    found = _ADDRESS.fullmatch(address.strip())
    assert found is not None  # every part may be empty
    place = (found["host"], int(found["port"] or _DEFAULT_PORT))
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        connection = socket.create_connection(place, timeout=_CONNECT_S)
    except (OSError, OverflowError, UnicodeError):
        return Listener.CLOSED
    with connection:
        try:
            context.wrap_socket(connection, server_hostname=place[0] or None).close()
        except ssl.SSLError as error:
            # Only what speaks TLS sends an alert, such as that it wants a certificate.
            alert = "ALERT" in (error.reason or "")
            return Listener.SPEAKS_TLS if alert else Listener.OTHER
        except (OSError, ValueError):
            return Listener.OTHER
    return Listener.SPEAKS_TLS
