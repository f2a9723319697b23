"""Jars: fetched once, whole or not at all, and refused when they are not the pinned ones."""

import hashlib
import threading

import pytest

from tidemark.embedded import jars
from tidemark.errors import ConfigurationError

CONTENT = {"one-1.jar": b"first", "two-2.jar": b"second"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEMARK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def lock(tmp_path):
    return written(tmp_path, sha256(b"first"), sha256(b"second"))


def test_jars_are_fetched_once(lock):
    fetched = []

    def counting(jar, scratch):
        fetched.append(jar.artifact)
        return fetch(jar, scratch)

    folder = jars.kafka_jars(counting, lock)

    assert jars.kafka_jars(counting, lock) == folder
    assert sorted(fetched) == ["one", "two"]
    assert sorted(path.name for path in folder.iterdir()) == ["one-1.jar", "two-2.jar"]


def test_a_jar_with_another_checksum_is_refused_and_nothing_stays(tmp_path, cache):
    lock = written(tmp_path, sha256(b"first"), sha256(b"forged"))

    with pytest.raises(
        ConfigurationError,
        match=f"^two-2.jar: SHA-256 is {sha256(b'second')}, must be {sha256(b'forged')}; "
        "nothing was installed$",
    ):
        jars.kafka_jars(fetch, lock)
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


def test_a_fetch_that_fails_names_the_jar(lock):
    def offline(jar, scratch):
        raise OSError("no network\nand more")

    with pytest.raises(
        ConfigurationError, match=r"^one-1\.jar was not fetched from Maven Central: no network$"
    ):
        jars.kafka_jars(offline, lock)


def test_two_that_fetch_at_once_fetch_once(lock):
    fetched = []

    def slowly(jar, scratch):
        fetched.append(jar.artifact)
        started.wait(5)
        return fetch(jar, scratch)

    started = threading.Event()
    both = [threading.Thread(target=jars.kafka_jars, args=(slowly, lock)) for _ in range(2)]
    for thread in both:
        thread.start()
    started.set()
    for thread in both:
        thread.join(10)

    assert sorted(fetched) == ["one", "two"]


def test_a_cache_that_cannot_be_is_named(tmp_path, monkeypatch, lock):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TIDEMARK_CACHE", str(tmp_path / "file" / "cache"))

    with pytest.raises(ConfigurationError, match=r"^folder .*file/cache: Not a directory$"):
        jars.kafka_jars(fetch, lock)


def test_every_locked_jar_has_a_checksum():
    assert {len(jar.sha256) for jar in jars.locked_jars()} == {64}


def fetch(jar, scratch):
    path = scratch / jar.file_name
    path.write_bytes(CONTENT[jar.file_name])
    return path


def written(folder, *checksums):
    lock = folder / "jars.lock"
    lines = [f"g:one:1 {checksums[0]}", f"g:two:2 {checksums[1]}"]
    lock.write_text("# what it is\n" + "\n".join(lines) + "\n")
    return lock


def sha256(content):
    return hashlib.sha256(content).hexdigest()
