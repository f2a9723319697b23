"""Java: the one of JAVA_HOME, else of the PATH, and one line about what is wrong with it."""

import pytest

from tidemark.embedded.java import install_when_missing, java
from tidemark.errors import ConfigurationError


def fake(folder, version):
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_java_home_comes_before_the_path(tmp_path, version):
    home, other = fake(tmp_path / "home", version), fake(tmp_path / "other", "1.8.0_402")
    environment = {"JAVA_HOME": str(home.parents[1]), "PATH": f"{other.parent}:/bin:/usr/bin"}

    assert java(environment) == str(home)


@pytest.mark.parametrize(("version", "shown"), [("1.8.0_402", 8), ("11.0.2", 11)])
def test_an_old_java_is_named_with_its_version(tmp_path, version, shown):
    old = fake(tmp_path, version)

    with pytest.raises(
        ConfigurationError,
        match=rf"^{old} is Java {shown}: the broker needs 17 or newer; install ",
    ):
        java({"PATH": f"{old.parent}:/bin:/usr/bin"})


def test_no_java_says_how_to_get_one(tmp_path):
    with pytest.raises(
        ConfigurationError, match=r"^no Java: the broker needs 17 or newer; install"
    ):
        java({"PATH": str(tmp_path)})


def test_a_java_home_without_java_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=rf"^JAVA_HOME={tmp_path} does not run: "):
        java({"JAVA_HOME": str(tmp_path), "PATH": "/bin"})


def test_java_is_installed_only_where_there_is_none(tmp_path, monkeypatch):
    installed = []
    monkeypatch.setattr("tidemark.embedded.java._install", lambda: installed.append("java"))

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="does not run"):
        install_when_missing()
    assert installed == []

    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"^no Java"):
        install_when_missing()
    assert installed == ["java"]
