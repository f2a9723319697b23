"""A broker with a TLS and SASL listener beside the plain one, and rights for its users."""

import subprocess
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tidemark.embedded.broker import Broker, free_port

PASSWORD = "s3cret-of-app"
_MODULES = "org.apache.kafka.common.security"
_PLAIN_LOGIN = f"{_MODULES}.plain.PlainLoginModule required"
_SCRAM_LOGIN = f"{_MODULES}.scram.ScramLoginModule required"
_SCRAM = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
MECHANISMS = ("PLAIN", *_SCRAM)


class SecureBroker:
    """A context: ``address`` is the listener that asks who is there, ``plain`` the admin's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.authority = folder / "ca.crt"
        self._broker = Broker(folder / "broker", extra=self._settings(_certificate(folder)))

    def _settings(self, keys: Path) -> dict[str, str]:
        secure, plain = f"127.0.0.1:{self.port}", "127.0.0.1:{port}"
        users = f'user_app="{PASSWORD}" user_guest="{PASSWORD}"'
        return {
            "listeners": f"PLAINTEXT://{plain},SASL_SSL://{secure},"
            "CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{plain},SASL_SSL://{secure}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keys),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{_PLAIN_LOGIN} {users};",
            **{
                f"listener.name.sasl_ssl.{name.lower()}.sasl.jaas.config": f"{_SCRAM_LOGIN};"
                for name in _SCRAM
            },
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def plain(self) -> str:
        return self._broker.address

    def client(
        self, user: str = "app", password: str = PASSWORD, mechanism: str = "PLAIN"
    ) -> dict[str, str]:
        """Return the environment of a service that logs in."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.address,
            "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "KAFKA_SSL_CA_LOCATION": str(self.authority),
            "KAFKA_SASL_MECHANISM": mechanism,
            "KAFKA_SASL_USERNAME": user,
            "KAFKA_SASL_PASSWORD": password,
        }

    def __enter__(self) -> "SecureBroker":
        self._broker.start()
        self._add_users()
        return self

    def _add_users(self) -> None:
        """Make the users of SCRAM, which brokers keep among themselves."""
        admin = AdminClient({"bootstrap.servers": self.plain})
        for mechanism in _SCRAM.values():
            known = ScramCredentialInfo(mechanism, 4_096)
            user = UserScramCredentialUpsertion("app", known, PASSWORD.encode())
            for future in admin.alter_user_scram_credentials([user]).values():
                future.result()

    def __exit__(self, *_: object) -> None:
        self._broker.stop()


def _certificate(folder: Path) -> Path:
    """Make an authority and a certificate of the broker; return the file with its key and chain."""
    _openssl(folder, "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority"
             " -keyout ca.key -out ca.crt")  # fmt: skip
    _openssl(folder, "req -newkey rsa:2048 -nodes -subj /CN=broker -keyout key.pem -out broker.csr")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    _openssl(folder, "x509 -req -in broker.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2"
             " -extfile names -out broker.crt")  # fmt: skip
    keys = folder / "keys.pem"
    keys.write_text("".join((folder / n).read_text() for n in ("key.pem", "broker.crt", "ca.crt")))
    return keys


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)
