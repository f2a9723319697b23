"""The port of health and metrics, seen from clients that do not behave."""

import socket
import struct
from http import HTTPStatus

from tidemark.runtime.service import health


def test_a_probe_that_hangs_up_before_the_answer_leaves_no_words(capfd):
    probe = socket.socket()

    def hangs_up() -> health._Page:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        probe.close()  # a reset, which the server meets as it writes
        return health._Page(HTTPStatus.OK, "text/plain", b"x" * 10_000_000)

    _ask(probe, hangs_up)
    assert probe.fileno() < 0
    assert capfd.readouterr() == ("", "")


def test_what_goes_wrong_in_an_answer_is_told(capfd):
    with socket.socket() as probe:
        _ask(probe, lambda: 1 / 0)
    assert "ZeroDivisionError" in capfd.readouterr().err


def _ask(probe, route):
    """Ask for the page of a route; returns when the server is done with it."""
    server = health._Server(("127.0.0.1", 0), health._handler({"/": route}))
    server.daemon_threads = False  # so that closing waits for them
    probe.connect(server.server_address)
    probe.sendall(b"GET / HTTP/1.0\r\n\r\n")
    server.handle_request()
    server.server_close()
