"""Fetches jars once from Maven Central into the cache, and checks their SHA-256.

A lock file lists all jars of a kind with their checksums; `jars.lock` is Kafka's.  Jars are fetched
into a staging folder, which is renamed when all checksums match.  So the final folder, named after
the checksum of the list, is complete or absent.  A file lock makes a second process wait for the
fetch of the first one.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track

from tidemark.embedded.processes import only_one_process
from tidemark.errors import ConfigurationError

LOCK = Path(__file__).with_name("jars.lock")
_AT_ONCE = 8

Fetch = Callable[["Jar", Path], Path]


@dataclass(frozen=True)
class Jar:
    """One line of a lock file: the Maven coordinates of a jar and its SHA-256."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The file name in Maven's form."""
        return f"{self.artifact}-{self.version}.jar"


def cache_folder() -> Path:
    """Return the cache folder: $TIDEMARK_CACHE, by default ~/.cache/tidemark."""
    return Path(os.environ.get("TIDEMARK_CACHE") or Path.home() / ".cache" / "tidemark")


def locked_jars(lock: Path = LOCK) -> tuple[Jar, ...]:
    """Return the jars of a lock file."""
    lines = [line for line in lock.read_text().splitlines() if not line.startswith("#")]
    return tuple(_jar(*line.split()) for line in lines)


def kafka_jars(fetch: Fetch | None = None, lock: Path = LOCK) -> Path:
    """Return the folder of Kafka's jars; fetch them at the first call."""
    return fetched_jars("kafka", lock, fetch)


def fetched_jars(kind: str, lock: Path, fetch: Fetch | None = None) -> Path:
    """Return the folder of the jars of a lock file; fetch them at the first call.

    ``kind``: begins the folder's name, and is shown during the fetch.

    Raises:
        ConfigurationError: a jar cannot be fetched, or its checksum is wrong.
    """
    folder = cache_folder() / f"{kind}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    with only_one_process(folder.with_suffix(".lock")):
        if not folder.is_dir():
            with staging(folder) as stage:
                _fetch_all(kind, locked_jars(lock), stage, fetch or fetch_from_maven_central)
    return folder


def fetch_from_maven_central(jar: Jar, scratch: Path) -> Path:
    """Download one jar into `scratch` by jgo, from its default repository; return its path."""
    from jgo.maven import MavenContext  # only a first start needs it

    context = MavenContext(repo_cache=scratch, timeout=60)
    component = context.project(jar.group, jar.artifact).at_version(jar.version)
    path = component.artifact().resolve()
    assert isinstance(path, Path)
    return path


@contextmanager
def staging(final: Path) -> Iterator[Path]:
    """Return a context with a folder that becomes `final`, or is removed if the block fails."""
    stage = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    try:
        yield stage
        stage.chmod(0o755)
        stage.rename(final)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _jar(coordinates: str, sha256: str) -> Jar:
    group, artifact, version = coordinates.split(":")
    return Jar(group, artifact, version, sha256)


def _fetch_all(kind: str, jars: tuple[Jar, ...], stage: Path, fetch: Fetch) -> None:
    with tempfile.TemporaryDirectory(dir=stage.parent, prefix=".scratch-") as scratch:

        def fetch_one(jar: Jar) -> None:
            fetched = _fetched(jar, Path(scratch), fetch)
            _verify(jar, fetched)
            fetched.rename(stage / jar.file_name)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            fetched = pool.map(fetch_one, jars)
            for _ in track(fetched, f"fetching {kind}", len(jars), console=Console(stderr=True)):
                pass


def _fetched(jar: Jar, scratch: Path, fetch: Fetch) -> Path:
    try:
        return fetch(jar, scratch)
    except Exception as error:  # jgo raises errors of many kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigurationError(
            f"{jar.file_name} was not fetched from Maven Central: {reason}"
        ) from error


def _verify(jar: Jar, path: Path) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != jar.sha256:
        raise ConfigurationError(
            f"{jar.file_name}: SHA-256 is {found}, must be {jar.sha256}; nothing was installed"
        )
