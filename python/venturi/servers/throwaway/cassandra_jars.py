"""Cassandra's jars: of an installed distribution, or fetched by Maven once and kept in the user's cache."""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import socket
from types import TracebackType

from venturi.common import temporary
from venturi.common.errors import UnreachableError, VenturiError
from venturi.servers.throwaway import network
from venturi.servers.throwaway.guarded import Guarded

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
    found = network.find(["mvn"])
    if found is None:
        raise network.missing("Cassandra", "its jars, and mvn to fetch them,", "maven", "maven")
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
        raise UnreachableError(f"Maven has not fetched Cassandra's jars in {_FETCH_SECONDS:.0f} s") from None
    if status != 0:
        raise UnreachableError(
            f"Maven cannot fetch Cassandra's jars: {_complaint(log)}",
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


_PLACES = (
    ("/usr/lib/jvm", "*{major}*/bin/java"),
    ("/Library/Java/JavaVirtualMachines", "*{major}*/Contents/Home/bin/java"),
    ("/opt/homebrew/opt", "openjdk@{major}/bin/java"),
)


def find(major: int, named: Path | None, needs: str) -> str:
    """The path of a Java of this major version: the one `named`, else of JAVA_HOME, PATH, usual places.
    Raises VenturiError, in which `needs` says who needs it."""
    if named is not None:
        found = _version(str(named))
        if found != major:
            what = f"is Java {found}" if found else "is no Java that runs"
            raise VenturiError(f"--java {named}: {what}; {needs} needs Java {major}")
        return str(named)
    unfit: dict[int, str] = {}
    for candidate in _candidates(major):
        found = _version(candidate)
        if found == major:
            return candidate
        if found is not None:
            unfit.setdefault(found, candidate)
    if unfit:
        versions = ", ".join(f"Java {version} ({path})" for version, path in unfit.items())
        raise UnreachableError(
            f"{needs} needs Java {major}, here is {versions}",
            hint=f"apt-get install openjdk-{major}-jre-headless, or name one: --java FILE",
        )
    debian, homebrew = f"openjdk-{major}-jre-headless maven", f"openjdk@{major} maven"
    raise network.missing(needs, f"java (version {major})", debian, homebrew)


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
    found = re.search(r'version "(?:1\.)?(\d+)', network.output_of(java, "-version"))
    return int(found[1]) if found else None


_VERSION = 4
_ERROR, _STARTUP, _READY, _AUTHENTICATE, _QUERY, _RESULT = 0, 1, 2, 3, 7, 8
_AUTH_RESPONSE, _AUTH_SUCCESS = 15, 16
_CONSISTENCY_ONE = 1
_ROWS = 2
_STATEMENT_SECONDS = 30.0


class CqlError(Exception):
    """The server refused; `code` is its own, as 0x0100 for bad credentials."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Cql:
    """A connection; use as a context manager. Raises OSError and CqlError."""

    def __init__(self, host: str, port: int, login: tuple[str, str] | None = None) -> None:
        self._connection: socket = network.connect(host, port)
        try:
            # DDL waits for the schema to be written.
            self._connection.settimeout(_STATEMENT_SECONDS)
            opcode, _ = self._call(_STARTUP, struct.pack("!H", 1) + _text("CQL_VERSION") + _text("3.0.0"))
            if opcode == _AUTHENTICATE:
                user, password = login or ("", "")
                token = f"\0{user}\0{password}".encode()
                self._call(_AUTH_RESPONSE, struct.pack("!i", len(token)) + token)
        except BaseException:
            self._connection.close()
            raise

    def execute(self, statement: str) -> bytes | None:
        """Runs a statement; the first row's only column, which is asked for as one column of text."""
        text = statement.encode()
        _, body = self._call(
            _QUERY, struct.pack("!i", len(text)) + text + struct.pack("!HB", _CONSISTENCY_ONE, 0)
        )
        if struct.unpack_from("!i", body)[0] != _ROWS:
            return None
        flags, columns = struct.unpack_from("!ii", body, 4)
        assert flags == 1 and columns == 1, "one column of one table"
        at = 12
        for _ in range(3):  # keyspace, table, column
            at += 2 + struct.unpack_from("!H", body, at)[0]
        at += 2  # a type without parameters
        rows, length = struct.unpack_from("!ii", body, at)
        return bytes(body[at + 8 : at + 8 + length]) if rows else None

    def _call(self, opcode: int, body: bytes) -> tuple[int, bytes]:
        self._connection.sendall(struct.pack("!BBhBi", _VERSION, 0, 0, opcode, len(body)) + body)
        _, _, _, answer, length = struct.unpack("!BBhBi", network.received(self._connection, 9))
        found = network.received(self._connection, length)
        if answer == _ERROR:
            code, size = struct.unpack_from("!iH", found)
            raise CqlError(code, found[6 : 6 + size].decode(errors="replace"))
        return answer, found

    def __enter__(self) -> Cql:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()


def _text(value: str) -> bytes:
    return struct.pack("!H", len(value.encode())) + value.encode()


def quoted(text: str) -> str:
    """A string literal of CQL's."""
    return "'" + text.replace("'", "''") + "'"
