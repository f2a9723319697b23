"""Jars: fetched once from Maven Central into the cache, refused unless their SHA-256 fits.

A lock file lists every jar of a kind and its checksum; `jars.lock` is that of Kafka's.  A fetch
goes into a staging folder that is renamed when all of it fits, so the final folder, named after
the list's own checksum, is whole or absent.  A file lock makes a second process wait for the first
one's fetch instead of repeating it.
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
    """One line of the list: where the jar comes from and what it must hash to."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Name of the file, as Maven names it."""
        return f"{self.artifact}-{self.version}.jar"


def cache_folder() -> Path:
    """Folder of everything fetched once: $TIDEMARK_CACHE, else ~/.cache/tidemark."""
    return Path(os.environ.get("TIDEMARK_CACHE") or Path.home() / ".cache" / "tidemark")


def locked_jars(lock: Path = LOCK) -> tuple[Jar, ...]:
    """Read the list of jars."""
    lines = [line for line in lock.read_text().splitlines() if not line.startswith("#")]
    return tuple(_jar(*line.split()) for line in lines)


def kafka_jars(fetch: Fetch | None = None, lock: Path = LOCK) -> Path:
    """Return the folder that holds Kafka's jars, fetching them when it is not there yet."""
    return fetched_jars("kafka", lock, fetch)


def fetched_jars(kind: str, lock: Path, fetch: Fetch | None = None) -> Path:
    """Return the folder that holds the jars of a lock file, fetching them if it is not there yet.

    ``kind`` begins the folder's name and is shown while they are fetched.
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
    """Download one jar below `scratch`, by jgo with its default repository."""
    from jgo.maven import MavenContext  # only a first start needs it

    context = MavenContext(repo_cache=scratch, timeout=60)
    component = context.project(jar.group, jar.artifact).at_version(jar.version)
    path = component.artifact().resolve()
    assert isinstance(path, Path)
    return path


@contextmanager
def staging(final: Path) -> Iterator[Path]:
    """Give a folder beside `final` that takes its name if the block succeeds, else is removed."""
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
    except Exception as error:  # whatever the client raises: the jar is not to be had
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
