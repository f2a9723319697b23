"""A client without TLS at a port that speaks it: found, and said."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest

from tidemark.errors import ConfigurationError
from tidemark.runtime.client.broker_probe import await_broker
from tidemark.runtime.client.listener import Listener, listener_at
from tidemark.runtime.config import Config

Answer = Callable[[socket.socket], None]


@pytest.fixture
def listening() -> Iterator[Callable[[Answer], str]]:
    servers: list[socket.socket] = []

    def listen(answer: Answer) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)
        threading.Thread(target=_serve, args=(server, answer), daemon=True).start()
        return f"127.0.0.1:{server.getsockname()[1]}"

    yield listen
    for server in servers:
        server.close()


def _serve(server: socket.socket, answer: Answer) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            try:
                answer(connection)
            except OSError:
                continue


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    new = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", *new, *files], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # refuses a client during the handshake
    return context


def _shake_hands(context: ssl.SSLContext) -> Answer:
    return lambda connection: context.wrap_socket(connection, server_side=True).close()


def _close(connection: socket.socket) -> None:
    connection.recv(10_000)


def _speak_http(connection: socket.socket) -> None:
    connection.recv(10_000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize("answer", [_close, _speak_http])
def test_what_speaks_no_tls_is_told_apart(listening, answer):
    assert listener_at(listening(answer)) is Listener.OTHER


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no.such.host.invalid:9092", "", "h:99999999"])
def test_an_address_without_listener_is_closed(address):
    assert listener_at(address) is Listener.CLOSED


def test_tls_is_found_also_where_a_certificate_is_wanted(listening, tls):
    address = listening(_shake_hands(tls))
    assert listener_at(address) is Listener.SPEAKS_TLS
    assert listener_at(f"PLAINTEXT://{address}") is Listener.SPEAKS_TLS
    tls.verify_mode = ssl.CERT_REQUIRED
    assert listener_at(address) is Listener.SPEAKS_TLS


@pytest.mark.parametrize(
    ("protocol", "remedy"), [("PLAINTEXT", "SSL or SASL_SSL"), ("SASL_PLAINTEXT", "SASL_SSL")]
)
def test_a_client_without_tls_is_told_so_within_seconds(listening, tls, protocol, remedy):  # D10
    address = listening(_shake_hands(tls))
    properties = {"security.protocol": protocol}
    if protocol == "SASL_PLAINTEXT":
        properties |= {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
    config = Config(bootstrap_servers=address, client_properties=properties)
    waits: list[str] = []
    with pytest.raises(ConfigurationError) as caught:
        await_broker(config, waits.append)
    assert str(caught.value) == (
        f"the broker at {address} speaks TLS and this client does not: set "
        f"KAFKA_SECURITY_PROTOCOL to {remedy}"
    )
    assert len(waits) < 4
