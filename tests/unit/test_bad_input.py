"""What users get wrong, as they type it: one clear line, the right exit code, nothing lost."""

from __future__ import annotations

import os
import re
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.flight import Certificates, served
from support.run import venturi
from support.stranger import stranger

FLAGS = (
    *("--operation", "get", "--rows-per-stream", "10k", "--repeats", "5", "--warmup", "0"),
    *("--timeout", "20s", "--no-report", "--no-ceilings"),
)


def errors(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("error: ")]


def hints(text: str) -> list[str]:
    return [line.removeprefix("hint: ") for line in text.splitlines() if line.startswith("hint: ")]


def test_a_cpu_that_is_not_there(tmp_path: Path) -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("this system pins no threads")
    ended = venturi("run", *FLAGS, "--pin", "4711", cwd=tmp_path)
    assert re.fullmatch(r"error: --pin: CPU 4711 is not there; this process may use [\d,-]+\n", ended.stderr)
    assert ended.returncode == 3


@pytest.mark.parametrize("kind", ["flight", "charrow", "timeseries"])
def test_a_server_for_other_hosts_says_so_first(kind: str, tmp_path: Path) -> None:
    # An address for documentation (RFC 5737), which no host here has: nothing is ever open.
    ended = venturi("serve", kind, "--host", "192.0.2.7", cwd=tmp_path)
    warning, hint, error = ended.stderr.splitlines()
    assert warning.startswith("warning: 192.0.2.7 is reachable by other hosts, ")
    assert hint.startswith("hint: ") and error.startswith("error: cannot listen on 192.0.2.7:")
    assert (ended.returncode, ended.stdout) == (4, "")


def test_more_than_the_memory(tmp_path: Path) -> None:
    arguments = ("--operation", "put", "--rows-per-batch", "100M", "--streams", "4000", "--dry-run")
    ended = venturi("run", *arguments, "--rows-per-stream", "1G", cwd=tmp_path)
    assert ended.returncode == 3 and ended.stderr.startswith(
        "error: --rows-per-batch: 100,000,000 rows are a message of 3.2 GB, and 4000 streams hold one each; "
    )


@pytest.fixture(scope="module")
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@pytest.fixture(scope="module")
def silent_port() -> Iterator[int]:
    """Connections are taken by the kernel, and nobody ever says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


def given_up(url: str, *more: object, cwd: Path, code: int = 5) -> str:
    """The reason of a run in which nothing could begin; it is tried twice, not five times."""
    ended = venturi("run", *FLAGS, "--target", url, *more, "--out", "r", cwd=cwd)
    assert ended.returncode == code, ended.stderr
    found = errors(ended.stderr)
    how = "never answered" if code == 4 else "let no trial begin"
    assert found[0] == f"error: {url} {how}; its other trials are left out"
    assert len((cwd / "r" / "trials.jsonl").read_text().splitlines()) == 2
    assert "Traceback" not in ended.stderr and ended.stdout.endswith("run: r\n")
    start, reason = found[1].split(" trials failed: ")
    assert start == "error: 2 of 2" and len(found) == 2
    return reason


def test_nobody_listens(core: object, closed_port: int, tmp_path: Path) -> None:
    reason = given_up(f"flight://127.0.0.1:{closed_port}", cwd=tmp_path, code=4)
    assert reason.startswith(f"unreachable: 127.0.0.1:{closed_port}: Connection refused")
    assert reason.endswith("nothing listens there; is the server running, and is the port right?")


def test_a_host_that_is_not_there(core: object, tmp_path: Path) -> None:
    reason = given_up("flight://no-such-host.invalid:31337", cwd=tmp_path, code=4)
    assert reason.startswith("unreachable: no-such-host.invalid:31337: ")


def test_a_web_server(core: object, tmp_path: Path) -> None:
    with stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        reason = given_up(f"flight://127.0.0.1:{port}", cwd=tmp_path)
    assert reason.startswith("protocol: first contact: ") and "HTTP/2 (gRPC)" in reason


def test_a_port_that_says_nothing(core: object, silent_port: int, tmp_path: Path) -> None:
    reason = given_up(f"flight://127.0.0.1:{silent_port}", "--timeout", "300ms", cwd=tmp_path)
    # Contact and plan may take that long each: who is late first is the machine's affair.
    assert reason.startswith("timeout: ") and "no answer" in reason and "0.3 s" in reason


def test_tls_here_and_not_there(core: object, certificates: Certificates, tmp_path: Path) -> None:
    c = certificates
    with served("flight") as plain:
        reason = given_up(f"flight+tls://{plain}", cwd=tmp_path)
    assert reason.startswith("tls: ") and reason.endswith("Without TLS the URL begins with flight://")
    keys = {"tls_certificate": str(c.server), "tls_key": str(c.server_key)}
    old = {"tls_certificate": str(c.expired), "tls_key": str(c.expired_key)}
    for server, scheme, trusted, said in (
        (keys, "flight", (), "does it want TLS (flight+tls://)?"),
        (keys, "flight+tls", ("--tls-ca", c.other_ca), "UnknownIssuer"),
        (old, "flight+tls", ("--tls-ca", c.ca), "xpired"),
    ):
        with served("flight", **server) as address, tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            assert said in given_up(f"{scheme}://{address}", *trusted, cwd=Path(folder))
