"""What users get wrong, as they type it: one clear line, the right exit code, nothing lost."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.flight import Certificates, ServerProcess
from support.run import venturi

pytestmark = pytest.mark.slow

Start = Callable[..., ServerProcess]
FLAGS = (
    *("--operation", "get", "--rows-per-stream", "10k", "--repeats", "5", "--warmup", "0"),
    *("--timeout", "20s", "--no-report", "--no-ceilings"),
)


def errors(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("error: ")]


def hints(text: str) -> list[str]:
    return [line.removeprefix("hint: ") for line in text.splitlines() if line.startswith("hint: ")]


def test_a_table_of_contents_that_lies(tmp_path: Path) -> None:
    """Parquet cut off, and with bytes changed; the reader's own words follow."""
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.table({"a": list(range(5000))}), whole)
    data = whole.read_bytes()
    for name, found in {
        "cut": data[: len(data) // 2],
        "changed": data[:100] + b"\xff" * 200 + data[300:],
        "words": b"these are words",
    }.items():
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(found)
        ended = venturi("run", *FLAGS, "--data", path, "--out", tmp_path / "r")
        assert ended.returncode == 3
        assert ended.stderr.startswith(f"error: {path}: not readable as Parquet: ")
        assert len(ended.stderr.splitlines()) == 1 and not (tmp_path / "r").exists()


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
def web_port() -> Iterator[int]:
    class Quiet(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


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


def test_a_web_server(core: object, web_port: int, tmp_path: Path) -> None:
    reason = given_up(f"flight://127.0.0.1:{web_port}", cwd=tmp_path)
    assert reason.startswith("protocol: first contact: ") and "HTTP/2 (gRPC)" in reason


def test_a_port_that_says_nothing(core: object, silent_port: int, tmp_path: Path) -> None:
    reason = given_up(f"flight://127.0.0.1:{silent_port}", "--timeout", "1s", cwd=tmp_path)
    # Contact and plan may take a second each: who is late first is the machine's affair.
    assert reason.startswith("timeout: ") and "no answer" in reason and "1 s" in reason


def test_tls_here_and_not_there(reference_server: ServerProcess, tmp_path: Path) -> None:
    reason = given_up(f"flight+tls://127.0.0.1:{reference_server.port}", cwd=tmp_path)
    assert reason.startswith("tls: ") and reason.endswith("Without TLS the URL begins with flight://")


def test_tls_there(start_reference_server: Start, certificates: Certificates, tmp_path: Path) -> None:
    c = certificates
    port = start_reference_server("--tls-certificate", c.server, "--tls-key", c.server_key).port
    old = start_reference_server("--tls-certificate", c.expired, "--tls-key", c.expired_key).port
    plain, wrong, expired = (tmp_path / name for name in ("plain", "wrong", "expired"))
    for folder in (plain, wrong, expired):
        folder.mkdir()
    assert "does it want TLS (flight+tls://)?" in given_up(f"flight://localhost:{port}", cwd=plain)
    url = f"flight+tls://localhost:{port}"
    assert "UnknownIssuer" in given_up(url, "--tls-ca", c.other_ca, cwd=wrong)
    url = f"flight+tls://localhost:{old}"
    assert "xpired" in given_up(url, "--tls-ca", c.ca, cwd=expired)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mounts as Linux does")
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """A real one of 40 kB: what was stored stays, what was measured is printed."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", str(small)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root may mount")
    try:
        flags = ("--operation", "get", "--repeats", "20", "--warmup", "0", "--no-ceilings", "--quiet")
        ended = venturi("run", "--executor", "support.model", *flags, "--out", small / "r")
        assert ended.returncode == 7
        assert re.search(r"^error: .*: the disk is full; trials stored before are safe$", ended.stderr, re.M)
        kept = (small / "r" / "trials.jsonl").read_text()
        assert kept.endswith("}\n") and 1 <= kept.count("\n") < 20
        room = tmp_path / "room"
        shutil.copytree(small / "r", room)
        assert venturi("run", "--executor", "support.model", "--resume", room, "--quiet").returncode == 0
        assert (room / "trials.jsonl").read_text().count("\n") == 20
    finally:
        subprocess.run(["umount", str(small)], check=True)
