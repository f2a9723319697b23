"""How the monitor logs in, from the settings that all services share."""

from typing import Any

import pytest
from faust.types.auth import AuthProtocol

from tidemark.errors import ConfigurationError
from tidemark.monitor.credentials import credentials


def test_brokers_that_want_nothing_get_nothing():
    assert credentials({}) is None
    assert credentials({"security.protocol": "PLAINTEXT"}) is None


def test_scram_over_tls_is_that():
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "reader",
        "sasl.password": "secret",
    }
    made: Any = credentials(given)
    assert made.protocol == AuthProtocol.SASL_SSL
    assert (made.mechanism.value, made.username) == ("SCRAM-SHA-512", "reader")
    assert made.ssl_context.check_hostname
    assert "secret" not in repr(made)


def test_tls_without_a_user_is_that():
    made: Any = credentials({"security.protocol": "ssl"})
    assert made.protocol == AuthProtocol.SSL


@pytest.mark.parametrize(
    "given",
    [
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"},
        {"security.protocol": "other"},
    ],
)
def test_what_it_does_not_know_is_refused_by_name(given):
    with pytest.raises(
        ConfigurationError, match=r"KAFKA_SECURITY_PROTOCOL and .*the monitor supports"
    ):
        credentials(given)
