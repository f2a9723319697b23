"""Addresses in messages: of sinks, archives, folders of results."""

from urllib.parse import urlsplit


def without_password(address: str, text: str | None = None) -> str:
    """Return an address, or what is said of it, without the password in it."""
    password = urlsplit(address).password
    said = address if text is None else text
    return said.replace(f":{password}@", ":***@") if password else said
