"""Finds Java 17 or newer by JAVA_HOME or PATH, or installs it by the system's package manager.

Why by hand: docs/decisions/0014-what-stays-by-hand.md.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tidemark.errors import ConfigurationError

OLDEST = 17

_INSTALLERS = {
    "apt-get": ("apt-get install -y -qq", ("openjdk-17-jre-headless", "openjdk-21-jre-headless")),
    "dnf": ("dnf install -y -q", ("java-17-openjdk-headless", "java-21-openjdk-headless")),
    "apk": ("apk add -q", ("openjdk17-jre-headless", "openjdk21-jre-headless")),
}


def java(environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of a Java that can run the broker.

    Raises:
        ConfigurationError: Java is missing, does not run or is too old; says how to install it.
    """
    home = environment.get("JAVA_HOME")
    command = (
        str(Path(home, "bin", "java"))
        if home
        else shutil.which("java", path=environment.get("PATH", os.defpath))
    )
    where = f"JAVA_HOME={home}" if home else str(command)
    if command is None:
        raise ConfigurationError(f"no Java: the broker needs {OLDEST} or newer; {_advice()}")
    version = _version(command, where)
    if version < OLDEST:
        raise ConfigurationError(
            f"{where} is Java {version}: the broker needs {OLDEST} or newer; {_advice()}"
        )
    return command


def install_when_missing() -> None:
    """Install Java if it is missing and this user may; an unsuitable Java is never replaced.

    Raises:
        ConfigurationError: as `java` does.
    """
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        _install()
    java()


def _version(command: str, where: str) -> int:
    try:
        shown = subprocess.run([command, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigurationError(f"{where} does not run: {error}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', shown.stderr + shown.stdout)
    if found is None:
        raise ConfigurationError(f"{where} shows no version: {shown.stderr.strip()!r}; {_advice()}")
    return int(found[1])


def _advice() -> str:
    for name, (command, packages) in _INSTALLERS.items():
        if shutil.which(name):
            return f"install it with: sudo {command} {packages[0]}"
    return "install a Java runtime (OpenJDK) and set JAVA_HOME"


def _install() -> None:
    prefix = _root_prefix()
    if prefix is None:
        return
    for name, (command, packages) in _INSTALLERS.items():
        if not shutil.which(name):
            continue
        if name == "apt-get":
            subprocess.run([*prefix, "apt-get", "update", "-qq"], check=False)
        for package in packages:
            install = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", *command.split(), package]
            if subprocess.run(install, check=False).returncode == 0:
                return


def _root_prefix() -> list[str] | None:
    """Return the prefix that runs a command as root without a password, None if impossible."""
    if os.geteuid() == 0:
        return []
    asked = shutil.which("sudo") and subprocess.run(["sudo", "-n", "true"], capture_output=True)
    return ["sudo", "-n"] if asked and asked.returncode == 0 else None
