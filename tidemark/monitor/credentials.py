"""Converts the KAFKA_* settings of a service to Faust's credentials."""

import ssl
from collections.abc import Mapping

import faust
from faust.types.auth import CredentialsT

from tidemark.errors import ConfigurationError


def credentials(properties: Mapping[str, str]) -> CredentialsT | None:
    """Return the credentials, None if the brokers need none.

    Raises:
        ConfigurationError: the monitor does not support the protocol or mechanism.
    """
    protocol = properties.get("security.protocol", "plaintext").upper()
    if protocol == "PLAINTEXT":
        return None
    context = _context(properties) if protocol in ("SSL", "SASL_SSL") else None
    if protocol == "SSL":
        return faust.SSLCredentials(context=context)
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "PLAIN"))
    known = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    if protocol not in ("SASL_PLAINTEXT", "SASL_SSL") or mechanism not in known:
        raise ConfigurationError(
            "KAFKA_SECURITY_PROTOCOL and KAFKA_SASL_MECHANISM: the monitor "
            f"supports SSL, and {', '.join(known)} over SASL_PLAINTEXT or SASL_SSL"
        )
    return faust.SASLCredentials(
        username=properties.get("sasl.username"),
        password=properties.get("sasl.password"),
        mechanism=mechanism,
        ssl_context=context,
    )


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"))
    certificate = properties.get("ssl.certificate.location")
    if certificate:
        context.load_cert_chain(
            certificate, properties.get("ssl.key.location"), properties.get("ssl.key.password")
        )
    if properties.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    return context
