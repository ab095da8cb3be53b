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
from venturi.targets.system import KNOWN

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


FILES = {
    "key.toml": "[workload]\nstreamz = 2\n",
    "table.toml": "[wrkload]\nstreams = 2\n",
    "home.toml": "[run]\nstreams = 2\n",
    "range.toml": '[matrix]\nstreams = "8..1"\n',
    "zero.toml": "[workload]\n\nstreams = 0\n",
    "zip.toml": '[matrix]\nstreams = [1, 2]\ncolumns = [1, 2, 3]\nzip = [["streams", "columns"]]\n',
    "exclude.toml": '[matrix]\nstreams = [1, 2]\nexclude = ["steams > 1"]\n',
    "none.toml": '[matrix]\nstreams = [1, 2]\nexclude = ["streams > 0"]\n',
    "syntax.toml": "[workload\nstreams = 2\n",
    "newer.toml": "format = 2\n",
    "empty.parquet": "",
    "text.parquet": "these are words",
    "picture.png": "\x7fPNG",
    "header.csv": "a,b\n",
    "ragged.csv": "a,b\n1,2\n3,4,5\n",
}
USABLE = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
# What is typed, the exit code, the error line, and the hint where there is one.
TYPED: list[tuple[str, int, str, str | None]] = [
    ("run key.toml", 3, "key.toml:2: workload.streamz: unknown key; did you mean streams?", None),
    ("run table.toml", 3, "table.toml:1: wrkload: unknown key; did you mean workload?", None),
    ("run home.toml", 3, "home.toml:2: run.streams: unknown key; it belongs into [workload]", None),
    ("run range.toml", 3, "range.toml:2: matrix.streams: the range '8..1' is empty: 8 is above 1", None),
    ("run zero.toml", 3, "zero.toml:3: workload.streams: 0 must be at least 1", None),
    (
        "run zip.toml",
        3,
        "zip.toml:4: matrix.zip: zipped axes must be of one length; streams has 2, columns has 3 values",
        "give each as many, or make a product of them: --set matrix.zip=[]",
    ),
    (
        "run exclude.toml",
        3,
        "exclude.toml:3: matrix.exclude: 'steams > 1': no parameter is called steams; did you mean streams?",
        None,
    ),
    (
        "run none.toml",
        3,
        "none.toml:3: matrix.exclude: every cell is excluded, by 'streams > 0'",
        "other values, or without conditions: --set matrix.exclude=[]",
    ),
    (
        "run newer.toml",
        3,
        "newer.toml:1: format: written in format 2, this Venturi reads 1",
        "install a newer Venturi",
    ),
    ("run quick --streams 0", 3, "--streams: 0 must be at least 1", None),
    ("run quick --rows-per-batch 0", 3, "--rows-per-batch: 0 must be at least 1", None),
    ("run quick --streams 8..1", 3, "--streams: the range '8..1' is empty: 8 is above 1", None),
    ("run quick --streams many", 3, "--streams: 'many' is not a number", None),
    ("run quick --rate 0", 3, "--rate: 0 must be above 0", None),
    ("run quick --rate 2G", 3, "--rate: 2G must be at most 1000000000", None),
    ("run quick --duration -1s", 3, "--duration: -1s must be above 0", None),
    ("run quick --verify hash", 3, "--verify: 'hash' is not one of checksum, count, none", None),
    (
        "run quick --rows-per-stream 1M --duration 1s",
        3,
        "--duration: rows_per_stream and duration exclude one another; keep one",
        None,
    ),
    (
        "run quick --target ftp://host",
        3,
        f"--target: 'ftp://host': no target is called 'ftp'; known: {', '.join(KNOWN)}",
        None,
    ),
    (
        "run quick --target flight://me:word@host",
        3,
        "--target: a password in the URL would be stored with the run; use user and password_env "
        "(--user, --password-env)",
        None,
    ),
    (
        "run quick --header authorization=word",
        3,
        "--header: authorization would be stored with the run; name its variable by header_env",
        None,
    ),
    (
        "ceilings mysql://me:word@[::1/db",
        3,
        "URL: a password in the URL would be stored with the run; use user and password_env "
        "(--user, --password-env)",
        None,
    ),
    (
        "ceilings mysql://[::1/db",
        3,
        "URL: 'mysql://[::1/db': the host is in brackets that do not match",
        None,
    ),
    (
        "ceilings clickhouse://host",
        2,
        "URL clickhouse://: a database has no port that takes plain bytes",
        "to measure the way there, run on that host: venturi serve flight --host 0.0.0.0",
    ),
    ("tune flight://[::1", 3, "TARGET: 'flight://[::1': the host is in brackets that do not match", None),
    ("run quick --header word", 2, "--header: must be written NAME=VALUE", None),
    ("run quick --steams 2", 2, "--steams: no such option; did you mean --streams?", "venturi run --help"),
    ("rn quick", 2, "no command is called 'rn'", "did you mean: venturi run"),
    ("run quik", 3, "quik: no such scenario, neither a file nor built in", "did you mean quick?"),
    (
        "run quick --token-env VENTURI_NOT_SET",
        3,
        "--token-env: the environment variable VENTURI_NOT_SET is not set",
        "set it in this shell: export VENTURI_NOT_SET=…",
    ),
    (
        "run quick --target flight+tls://host --tls-ca not-there.pem",
        3,
        "--tls-ca: not-there.pem: no such file",
        None,
    ),
    ("prove empty://", 3, "empty://: nothing is moved there, so nothing can be proved of it", None),
    (
        "run quick --tls-ca key.toml",
        3,
        "--tls-ca: is for TLS, and flight:// goes without it",
        "write flight+tls://, or leave it out",
    ),
    ("run quick --pin node77", 3, "--pin: this machine has no NUMA node 77", None),
    (
        "run --rows-per-batch 4M",
        3,
        "--rows-per-batch: 4,000,000 rows are a message of 128 MB, over the limit of 67.1 MB",
        "take fewer rows per batch, or raise --max-message-size",
    ),
    (
        "run --rows-per-batch 2G --rows-per-stream 8G",
        3,
        "--rows-per-batch: 2,000,000,000 rows are a message of 64 GB; the most is 4.29 GB",
        None,
    ),
    (
        "run --max-message-size 20GiB --streams 2",
        3,
        "--max-message-size: 20GiB must be at most 4294967295",
        None,
    ),
    ("run --data empty.parquet", 3, "{cwd}/empty.parquet: the file is empty", None),
    ("run --data none.parquet", 3, "{cwd}/none.parquet: has no rows", None),
    ("run --data header.csv", 3, "{cwd}/header.csv: has no rows", None),
    ("run --data missing.parquet", 3, "{cwd}/missing.parquet: no such file", None),
    (
        "run --data picture.png",
        3,
        "{cwd}/picture.png: neither Parquet, Arrow IPC nor CSV",
        "name CSV files .csv, .tsv, .csv.gz or .tsv.gz",
    ),
    (
        "show nothing",
        7,
        "nothing: no such run directory",
        "runs are kept in venturi-runs/ unless --out says otherwise",
    ),
    (
        "run --resume .",
        7,
        ".: not a run directory (environment.json and trials.jsonl are missing)",
        "name the directory that `venturi run` printed",
    ),
    ("run quick --out key.toml/run", 7, "key.toml/run: cannot be written: Not a directory", None),
    ("serve flight --tls-key key.toml", 2, "--tls-certificate and --tls-key go together", None),
    (
        "serve flight --token-env VENTURI_NOT_SET",
        2,
        "--token-env: the environment variable VENTURI_NOT_SET is not set",
        None,
    ),
]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, subprocess.CompletedProcess[str]]:
    """What every line of the table ends with."""
    folder = tmp_path_factory.mktemp("typed")
    for name, content in FILES.items():
        (folder / name).write_text(content)
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), folder / "none.parquet")
    found = {typed: venturi(*typed.split(), cwd=folder) for typed, *_ in TYPED}
    found["cwd"] = subprocess.CompletedProcess([str(folder)], 0)
    return found


@pytest.mark.parametrize("typed", [typed for typed, *_ in TYPED])
def test_a_mistake_is_one_line(typed: str, done: dict[str, subprocess.CompletedProcess[str]]) -> None:
    _, code, error, hint = next(row for row in TYPED if row[0] == typed)
    ended, cwd = done[typed], done["cwd"].args[0]
    said = ended.stderr.splitlines()
    assert said[0] == "error: " + error.replace("{cwd}", cwd)
    assert said[1:] == ([f"hint: {hint}"] if hint else [])
    assert (ended.returncode, ended.stdout) == (code, "")
    assert not (Path(cwd) / "venturi-runs").exists()


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
    if not USABLE:
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
