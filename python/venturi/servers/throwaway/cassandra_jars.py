"""Cassandra's jars: of an installed distribution, or fetched by Maven once and kept in the user's cache."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from venturi.common import temporary
from venturi.common.errors import ExitCode, VenturiError
from venturi.servers.throwaway import programs
from venturi.servers.throwaway.guarded import Guarded

__all__ = ["VERSION", "cached", "fetch", "installed", "maven"]

# As in pom.xml.
VERSION = "5.0.9"
_FETCH_SECONDS = 1800.0
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or ""
    # A relative one is to be ignored, says the specification.
    home = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return home / "venturi" / f"cassandra-{VERSION}"


def cached() -> Path | None:
    """The directory of the jars fetched before."""
    found = _cache()
    return found if (found / f"cassandra-all-{VERSION}.jar").is_file() else None


def installed(home: Path) -> Path:
    """The directory with the jars of a distribution. Raises VenturiError where it is not of version 5.0."""
    for library in (home / "lib", home):
        for jar in sorted(library.glob("*cassandra-*.jar")):
            found = re.fullmatch(r"(?:apache-cassandra|cassandra-all)-(\d+\.\d+\.\d+.*)\.jar", jar.name)
            if found is None:
                continue
            if not found[1].startswith("5.0."):
                raise VenturiError(f"--cassandra-home {home}: Cassandra {found[1]}; 5.0.x can be served")
            return library
    raise VenturiError(
        f"--cassandra-home {home}: holds no lib/apache-cassandra-*.jar",
        hint="name the directory that an archive of Cassandra unpacks to; Debian's is /usr/share/cassandra",
    )


def maven() -> str:
    """Maven's program. Raises VenturiError where there is none."""
    found = programs.find(["mvn"])
    if found is None:
        raise programs.missing("Cassandra", "its jars, and mvn to fetch them,", "maven", "maven")
    return found


def fetch(guarded: Guarded, log: Path, note: Callable[[str, str], None]) -> Path:
    """Lets Maven fetch the jars into the cache; their directory. Raises VenturiError."""
    target = _cache()
    note("info", f"fetching Cassandra {VERSION} by Maven into {target} (67 MB, once)")
    command = [maven(), "-B", "-q", "-f", str(Path(__file__).with_name("pom.xml")), _GOAL]
    command += [f"-DoutputDirectory={guarded.directory / 'jars'}", "-DincludeScope=runtime"]
    try:
        status = guarded.run(command, log, _FETCH_SECONDS, as_owner=False)
    except TimeoutError:
        raise VenturiError(
            f"Maven has not fetched Cassandra's jars in {_FETCH_SECONDS:.0f} s", ExitCode.UNREACHABLE
        ) from None
    if status != 0:
        raise VenturiError(
            f"Maven cannot fetch Cassandra's jars: {_complaint(log)}",
            ExitCode.UNREACHABLE,
            hint="~/.m2/settings.xml sets a proxy or mirror; --cassandra-home names a distribution instead",
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that it comes there in one piece; nothing half done is taken for whole.
        with temporary.make("jars", target.parent) as fresh:
            shutil.copytree(guarded.directory / "jars", fresh / "jars")
            if not target.exists():
                (fresh / "jars").rename(target)
    except OSError as error:
        raise VenturiError(f"{target}: {error.strerror}") from None
    finally:
        shutil.rmtree(guarded.directory / "jars", ignore_errors=True)
    return target


def _complaint(log: Path) -> str:
    errors = [line for line in log.read_text(errors="replace").splitlines() if "[ERROR]" in line]
    return errors[0].split("[ERROR]", 1)[1].strip() if errors else "it did not say why"
