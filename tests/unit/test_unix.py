"""Unix sockets in the place of a host: servers on them, trials over them, and their limit."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.core import run
from support.flight import served
from support.processes import killed
from support.read import ONCE, RECORDS, get, good, ran, refused, spec
from support.run import command, environment, venturi
from support.scenarios import cells as cells_of
from venturi.analysis.cells.ceilings import Limits, share
from venturi.cluster.ray_executor import RayExecutor
from venturi.common.errors import ScenarioError
from venturi.measure.ceiling_probes import probes
from venturi.servers.local import LocalTargets
from venturi.targets.urls import place_of


@pytest.fixture(scope="module")
def flight(core: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The path of a server in this process."""
    with served("flight", unix=str(tmp_path_factory.mktemp("unix") / "s")) as path:
        yield path


# ---- servers


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("kind", ["flight", "charrow"])
def test_a_server_on_a_socket(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    # A dead server's.
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    words, pipe = command("serve", kind, "--unix", path), subprocess.PIPE
    server = subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=environment())
    assert server.stdout is not None
    assert server.stdout.readline() == f"serving {kind}+unix://{path}  (Ctrl-C stops)\n"
    found = path.stat()
    assert stat.S_ISSOCK(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o600
    second = venturi("serve", kind, "--unix", path)
    assert second.returncode == 4 and "a server that lives listens there" in second.stderr
    assert path.stat().st_ino == found.st_ino
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    server.send_signal(signal.SIGTERM)
    assert server.wait(20) == 0 and not path.exists()


@pytest.mark.usefixtures("core")
def test_where_no_server_can_listen(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    certificate = ("--tls-certificate", kept, "--tls-key", kept)
    for words, said in (
        (["--unix", kept], "there is a file that is no socket"),
        (["--unix", tmp_path / "none" / "s"], "there is no such directory"),
        (["--unix", tmp_path / ("x" * 108)], "bytes at most"),
        (["--unix", tmp_path / "s", *certificate], "PEM"),
    ):
        done = venturi("serve", "flight", *words)
        assert done.returncode != 0 and said in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) <= 2
    assert kept.read_text() == "mine"


@pytest.mark.usefixtures("core")
def test_what_stands_for_local(monkeypatch: pytest.MonkeyPatch) -> None:
    local = LocalTargets(lambda level, text: None)
    local.start(["flight://local", "flight+unix://local", "charrow+unix://local"])
    try:
        url = local.url("flight+unix://local/t")
        assert url.startswith("flight+unix:///") and url.endswith("/flight.sock:/t")
        assert local.url("flight://local").startswith("flight://127.0.0.1:")
        assert local.reference_url("flight+unix://local") == local.url("flight+unix://local")
        query = local.url("charrow+unix://local?query=SELECT%201")
        assert query.endswith("/charrow.sock?query=SELECT%201")
        assert list(local.environments("flight+unix://local")) == [place_of(url)]
        # One that dies is started again, and nothing of the first stays.
        first = Path(place_of(url))
        pid = local.pid("flight+unix://local")
        assert pid is not None
        killed(pid)
        local.ensure()
        second = Path(place_of(local.url("flight+unix://local")))
        assert second != first and not first.parent.exists() and second.exists()
    finally:
        local.stop()
    assert not second.parent.exists()


# ---- trials


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("operation", ["get", "put"])
def test_flight(flight: str, operation: str) -> None:
    given = spec(f"flight+unix://{flight}", operation, data=RECORDS, rows=100_000, streams=3)
    record = good(run(given | {"threads": 2, "sample_interval_ns": 10_000_000}), 300_000, "checksum")
    target = record["target"]
    assert (target["address"], target["pid"], target["reference"]) == (flight, os.getpid(), True)
    assert record["resources"]["same_machine"] is True
    # There is no TCP of which the kernel could tell, and no interface.
    for end in ("client", "server"):
        found = record["resources"][end] or {}
        assert found.get("sockets") is None and found.get("network") is None


@pytest.mark.usefixtures("core")
def test_a_table_of_flight_lies_behind_the_colon(flight: str, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": pa.array(range(5000), pa.int64())}), file)
    table = f"flight+unix://{flight}:/t"
    words = ("--operation", "put", "--data", file, "--rows-per-stream", "5k", *ONCE)
    ran(tmp_path / "put", "--target", table, *words)
    lines = ran(tmp_path / "get", "--target", table, *ONCE)
    assert lines and {line["counts"]["rows"] / line["parameters"]["streams"] for line in lines} == {5000}


@pytest.mark.usefixtures("core")
def test_a_stock_client_reads_over_it(flight: str) -> None:
    """pyarrow's, which follows the endpoint's location, if it is one."""
    import pyarrow as pa
    from pyarrow import flight as arrow

    table = pa.table({"n": pa.array(range(1000), pa.int64())})
    descriptor = arrow.FlightDescriptor.for_path("t")
    with arrow.connect(f"grpc+unix://{flight}") as client:
        writer, _ = client.do_put(descriptor, table.schema)
        writer.write_table(table)
        writer.close()
        info = client.get_flight_info(descriptor)
        places = [place.uri for end in info.endpoints for place in end.locations]
        assert places == [b"arrow-flight-reuse-connection://?"]
        assert client.do_get(info.endpoints[0].ticket).read_all().equals(table)


@pytest.mark.usefixtures("core")
def test_charrow(tmp_path: Path) -> None:
    with served("charrow", unix=str(tmp_path / "s")) as path:
        url = f"charrow+unix://{path}"
        record = get(url, data=RECORDS, streams=2, rows=50_000, encoders=2)
        good(record, 100_000, "checksum")
        assert record["target"]["pid"] == os.getpid()
        assert raw(url, "get", 2)["outcome"] == "ok"


# ---- ways that lead nowhere


SCHEMES = ("flight", "charrow", "postgres", "mysql")


def reason(scheme: str, path: Path, behind: str = "") -> str:
    record = get(f"{scheme}+unix://{path}{behind}", data=RECORDS, rows=1000)
    return refused(record, "unreachable", str(path))


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_paths_that_lead_nowhere(scheme: str, tmp_path: Path) -> None:
    if os.environ.get("USER") is None:
        os.environ["USER"] = "venturi"
    path = tmp_path / "s"
    assert "there is no such socket" in reason(scheme, path)
    path.write_text("")
    assert "it is a file, not a socket" in reason(scheme, path)
    assert "written behind a colon" in reason(scheme, path / "db")
    path.unlink()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert "its server has ended" in reason(scheme, path)
    if scheme != "postgres":
        assert "name the socket in it" in reason(scheme, tmp_path)


@pytest.mark.usefixtures("core")
def test_a_socket_of_somebody_else(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        path = tmp_path / "s"
        listening.bind(str(path))
        listening.listen()
        path.chmod(0)
        own = os.geteuid()
        if own == 0:
            # To root nothing is forbidden.
            os.seteuid(65534)
        try:
            said = reason("flight", path)
        finally:
            os.seteuid(own)
    assert "this user may not connect" in said


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize(("scheme", "kind"), [("flight", "a gRPC server"), ("charrow", "a charrow server")])
def test_a_server_of_something_else_is_not_asked_for_tls(scheme: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "s"

    def hang_up() -> None:
        with contextlib.suppress(OSError):
            while True:
                with listening.accept()[0] as connection:
                    connection.recv(65536)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        threading.Thread(target=hang_up, daemon=True).start()
        said = refused(get(f"{scheme}+unix://{path}", data=RECORDS, rows=1000), "protocol", f"is it {kind}?")
        # What waits in accept goes on.
        listening.shutdown(socket.SHUT_RDWR)
    assert "TLS" not in said


@pytest.mark.usefixtures("core")
def test_a_server_that_takes_nobody_in_is_given_up_in_time(tmp_path: Path) -> None:
    """Its queue is full, of which the kernel says no more than: not now."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(str(path))
        record = get(f"flight+unix://{path}", data=RECORDS, rows=10, batch=10, patience_s=0.3)
        said = refused(record, "unreachable", str(path), "no answer to the connection request")
        assert "its queue is full" in said and "firewall" not in said
        for one in waiting:
            one.close()


def test_loaders_on_other_hosts_do_not_reach_it() -> None:
    class Loader:
        name, address, identity = "loader-1", "10.0.0.2", {"boot_id": "another"}

    executor = object.__new__(RayExecutor)
    executor._loaders = [Loader()]  # type: ignore[list-item]
    found = cells_of('name = "x"\n[target]\nurl = "flight+unix:///run/s"\n')
    with pytest.raises(ScenarioError, match="is a Unix socket of this machine, and loader-1 is on"):
        executor.check(found)


# ---- limits


def raw(url: str, direction: str, streams: int) -> dict[str, Any]:
    from venturi import _core

    spec = {"target": url, "options": {}, "direction": direction, "streams": streams}
    spec |= {"duration_ns": 50_000_000}
    answer: dict[str, Any] = json.loads(_core.probe_tcp(json.dumps(spec), _core.Control()))
    return answer


@pytest.mark.usefixtures("core")
def test_raw_sockets_are_probed_beside_the_servers_own(tmp_path: Path) -> None:
    with served("flight", unix=str(tmp_path / "s")) as path:
        for direction, streams in itertools.product(("get", "put"), (1, 3)):
            answer = raw(f"flight+unix://{path}", direction, streams)
            assert answer["outcome"] == "ok" and answer["bytes"] > 0, answer
        assert Path(f"{path}.raw").exists()
    assert raw(f"flight+unix://{path}", "get", 1)["error"]["kind"] == "unreachable"


def test_a_cell_over_a_socket_has_that_as_its_limit() -> None:
    cells = cells_of('[matrix]\ntarget = ["flight://local", "flight+unix://local"]\n')
    lines = []
    for cell, size in zip(cells, (5 * 10**9, 9 * 10**9), strict=True):
        (probe,) = (one for one in probes([cell]) if one.kind in ("tcp", "unix"))
        line = dataclasses.asdict(dataclasses.replace(probe, cell=None))
        lines.append({**line, "bytes": size, "interval_ns": 10**9})
    limits = Limits(lines)
    one, other = (limits.of(cell.parameters, None) for cell in cells)
    assert set(one) == {"raw TCP"} and one["raw TCP"].rate.median == 5e9
    assert set(other) == {"raw Unix socket"} and other["raw Unix socket"].rate.median == 9e9
    assert share("raw Unix socket") == "of a raw Unix socket"
