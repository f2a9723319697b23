"""Images made of this tree, for services and for replays: the tag is the tree's checksum.

So a run that changes nothing builds nothing, and two runs side by side never take each other's.
Images of other trees go after a day; the layers that they share stay.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from tests.docker.support.compose import ROOT, run

_SOURCES = ("Dockerfile", ".dockerignore", "pyproject.toml", "README.md", "LICENSE")
_LOCKS = ("image.lock", "replay.lock")
_FOLDERS = ("services", "tidemark", "examples")
_LABEL = "tidemark.tests"
TARGETS = ("service", "replay")


def built_image(target: str = "service") -> str:
    """Return the name of the image of a target of Dockerfile; it is built if it is not there."""
    name = f"tidemark-tests-{target}:{_checksum()}"
    if not run("docker", "images", "--quiet", name):
        run("docker", "build", "--target", target, "--label", _LABEL, "--tag", name, str(ROOT))
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
    yield from (ROOT / name for name in (*_SOURCES, *_LOCKS))
    for folder in _FOLDERS:
        paths = (ROOT / folder).rglob("*")
        yield from sorted(p for p in paths if p.is_file() and "__pycache__" not in p.parts)


if __name__ == "__main__":
    for each in TARGETS:
        built_image(each)
