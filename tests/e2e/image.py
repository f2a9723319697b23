"""The image of the services, made of this tree: its tag is the checksum of what is in it.

So a run that changes nothing builds nothing, and two runs side by side never take each other's.
Images of other trees go after a day; the layers that they share stay.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.compose import ROOT, run

_SOURCES = ("Dockerfile", ".dockerignore", "image.lock", "pyproject.toml", "README.md")
_FOLDERS = ("services", "tidemark", "examples")
_LABEL = "tidemark.tests"


def built_image() -> str:
    """Return the image's name; it is built if it is not there."""
    name = f"tidemark-tests:{_checksum()}"
    if not run("docker", "images", "--quiet", name):
        run("docker", "build", "--target", "service", "--label", _LABEL, "--tag", name, str(ROOT))
        old = ("--filter", f"label={_LABEL}", "--filter", "until=24h")
        run("docker", "image", "prune", "--all", "--force", *old)
    return name


def _checksum() -> str:
    digest = hashlib.sha256()
    for path in _files():
        digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _files() -> Iterator[Path]:
    yield from (ROOT / name for name in _SOURCES)
    for folder in _FOLDERS:
        paths = (ROOT / folder).rglob("*")
        yield from sorted(p for p in paths if p.is_file() and "__pycache__" not in p.parts)
