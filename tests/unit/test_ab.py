"""`venturi ab`: two servers that it starts itself, measured in turns."""

from __future__ import annotations

import shlex
import socket
import sys
from pathlib import Path

import pytest

from support.flight import served
from support.run import venturi
from venturi.analysis.results import load

pytestmark = pytest.mark.usefixtures("core")
SERVER = f"{shlex.quote(sys.executable)} -m venturi serve flight --port {{port}}"
MEASURED = ("--operation", "get", "--rows-per-stream", "50k", "--repeats", 3, "--no-ceilings")


def test_a_slower_build_is_found_and_both_are_stopped(tmp_path: Path) -> None:
    out = tmp_path / "run"
    slow = f"{SERVER} --handicap encode=1ms"
    done = venturi("ab", SERVER, slow, "--out", out, *MEASURED, "--repeats", 6)
    assert done.returncode == 8, done.stderr
    assert "of 1 cell 1 slower" in done.stdout and f"run: {out}" in done.stdout
    # Measured in one run, in turns.
    found = load(out)
    assert {c.parameters["place"] for c in found.cells} == {"base", "head"}
    ports = {int(str(c.parameters["target"]).rpartition(":")[2]) for c in found.cells}
    assert len(ports) == 2
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)


def test_servers_that_run_already(tmp_path: Path) -> None:
    with served("flight") as one, served("flight") as other:
        urls = f"flight://{one}", f"flight://{other}"
        done = venturi("ab", *urls, "--out", tmp_path / "run", "--threshold", "90%", *MEASURED)
    assert done.returncode == 0, done.stderr
    assert "of 1 cell" in done.stdout


def test_where_a_server_is_found(tmp_path: Path) -> None:
    """`--url` names the system and the table of a server that a command starts: here there is none of it."""
    with served("flight") as other:
        done = venturi(
            "ab", SERVER, f"flight://{other}", "--url", "flight://127.0.0.1:{port}/none",
            "--confidence", "90%", "--out", tmp_path / "run", *MEASURED,
        )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert "failed" in done.stdout


@pytest.mark.parametrize(
    ("base", "code", "said"),
    [
        ("no-such-server {port}", 4, "no-such-server {port}: does not listen on port"),
        ("sh -c 'echo broken {port}; exit 3'", 4, "broken"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, base: str, code: int, said: str) -> None:
    done = venturi("ab", base, "flight://127.0.0.1:1", "--out", tmp_path / "run", *MEASURED)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
