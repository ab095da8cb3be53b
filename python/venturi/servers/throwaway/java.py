"""Finding a Java of the right version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from venturi.common.errors import ExitCode, VenturiError
from venturi.servers.throwaway import programs

__all__ = ["find"]

_SECONDS = 20.0
_PLACES = (
    ("/usr/lib/jvm", "*{major}*/bin/java"),
    ("/Library/Java/JavaVirtualMachines", "*{major}*/Contents/Home/bin/java"),
    ("/opt/homebrew/opt", "openjdk@{major}/bin/java"),
)


def find(major: int, named: Path | None, needs: str) -> str:
    """The path of a Java of this major version: the one `named`, else of JAVA_HOME, PATH, usual places.

    Raises VenturiError, in which `needs` says who needs it.
    """
    if named is not None:
        found = _version(str(named))
        if found != major:
            what = f"is Java {found}" if found else "is no Java that runs"
            raise VenturiError(f"--java {named}: {what}; {needs} needs Java {major}")
        return str(named)
    others: dict[int, str] = {}
    for candidate in _candidates(major):
        found = _version(candidate)
        if found == major:
            return candidate
        if found is not None:
            others.setdefault(found, candidate)
    if others:
        there = ", ".join(f"Java {version} ({path})" for version, path in others.items())
        raise VenturiError(
            f"{needs} needs Java {major}, here is {there}",
            ExitCode.UNREACHABLE,
            hint=f"apt-get install openjdk-{major}-jre-headless, or name one: --java FILE",
        )
    debian, homebrew = f"openjdk-{major}-jre-headless maven", f"openjdk@{major} maven"
    raise programs.missing(needs, f"java (version {major})", debian, homebrew)


def _candidates(major: int) -> Iterator[str]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield os.path.join(home, "bin", "java")
    in_path = shutil.which("java")
    if in_path:
        yield in_path
    for base, pattern in _PLACES:
        yield from map(str, sorted(Path(base).glob(pattern.format(major=major))))


def _version(java: str) -> int | None:
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None
