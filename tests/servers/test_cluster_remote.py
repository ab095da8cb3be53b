"""The scenarios of many hosts on five of them (namespaces), small: servers on hosts of their own, beside the
first loader, and a database that is nobody's; what is merged is the sum of its parts."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.database import available
from support.flight import ServerProcess
from support.hosts import NETWORK, RayCluster, hosts, ray_cluster
from support.needs import require
from support.read import records
from support.run import ROOT, command, environment
from venturi.analysis.results import load
from venturi.cluster.hosts import own_versions

SMALL = ("--repeats", 1, "--warmup", 0, "--ceilings", "none", "--no-report", "--interface", NETWORK)
CHARROW = """\
name = "charrow-remote"
[target]
url = "charrow://remote"
[workload]
operation = "get"
data = "records"
rows_per_stream = "50k"
rows_per_batch = 4096
streams = 6
[hosts]
loaders = 3
"""
SUMS = ("rows", "batches", "payload_bytes")


@pytest.fixture(scope="module")
def cluster(core: Any) -> Iterator[RayCluster]:
    require(own_versions()["ray"], "ray (venturi[cluster])")
    with hosts(5) as five, ray_cluster(five, "--cpus", 1) as made:
        yield made


def run(cluster: RayCluster, out: Path, what: str, *more: object) -> list[dict[str, Any]]:
    """The records of a run on the cluster, all of them good, verified and merged of what the hosts moved."""
    words = command("run", what, "--on", "auto", "--out", out, *SMALL, *more)
    variables = environment(**cluster.variables)
    done = cluster.hosts[0].run(*words, env=variables, cwd=ROOT, timeout=None)
    assert done.returncode == 0, done.stderr + done.stdout
    found = records(out)
    for record in found:
        assert record["outcome"] == "ok", record["error"]
        assert record["verification"]["achieved"] in ("checksum", "sums")
        parts, parameters = record["hosts"], record["parameters"]
        assert len(parts) == parameters["loaders"] == len({host["address"] for host in parts})
        assert sum(host["streams"][1] for host in parts) == parameters["streams"] == len(record["streams"])
        for name in SUMS:
            assert sum(host[name] for host in parts) == record["counts"][name], name
    return found


def addresses(record: dict[str, Any]) -> list[str]:
    return [address.rpartition(":")[0] for address in record["target"]["address"].split(",")]


def test_local_and_remote_side_by_side(cluster: RayCluster, tmp_path: Path) -> None:
    """A server beside the first of several loaders listens where all of them reach it."""
    given = ("--set", "matrix.streams=[3]", "--set", "matrix.loaders=[1,3]", "--rows-per-stream", "50k")
    found = run(cluster, tmp_path / "run", "flight-remote", *given)
    assert len(found) == len({str(r["parameters"]) for r in found})
    seen = set()
    for record in found:
        place, loaders = record["parameters"]["place"], record["parameters"]["loaders"]
        seen.add((place, loaders))
        (server,) = addresses(record)
        loading = [host["address"] for host in record["hosts"]]
        if place == "remote":
            assert server.startswith("10.77.0.") and server not in loading
        else:
            assert server == loading[0] or (loaders == 1 and server == "127.0.0.1")
    assert seen == {(place, loaders) for place in ("local", "remote") for loaders in (1, 3)}


def test_charrow_remote(cluster: RayCluster, tmp_path: Path) -> None:
    """One server on a host of its own, whose blocks three loaders share."""
    scenario = tmp_path / "charrow.toml"
    scenario.write_text(CHARROW)
    (found,) = run(cluster, tmp_path / "run", str(scenario))
    (server,) = addresses(found)
    assert server not in {host["address"] for host in found["hosts"]}
    assert found["target"]["reference"] and found["target"]["servers"] == 1
    # Whoever is ready takes the next block: nobody knows how many each got, but each row went to one of them.
    assert found["counts"]["rows"] == sum(stream["rows"] for stream in found["streams"]) == 6 * 50_000


def test_several_servers(cluster: RayCluster, tmp_path: Path) -> None:
    """Streams take three hosts in turn, whichever of two loaders they are on; each tells of itself, and each
    link is measured."""
    given = ("--loaders", 2, "--servers", 3, "--streams", 6, "--rows-per-stream", "50k", "--ceilings", "once")
    places = ("--set", "matrix.place=['remote']", "--set", "matrix.operation=['get','put']")
    found = run(cluster, tmp_path / "run", "flight-remote", *given, *places)
    assert len(found) == 2
    for record in found:
        assert record["target"]["servers"] == len(set(addresses(record))) == 3
        assert not set(addresses(record)) & {host["address"] for host in record["hosts"]}
    results = load(tmp_path / "run")
    named = found[0]["target"]["address"].split(",")
    assert list(results.environment["server_hosts"]["remote"]) == named
    assert results.environment["server"] == results.environment["server_hosts"]["remote"][named[0]]
    links = {
        f"loader-{loader}:server-{n + 1}": address for loader in (1, 2) for n, address in enumerate(named)
    }
    for cell in results.cells:
        lines = [line for line in results.probes if line["direction"] == cell.operation]
        assert all(line["outcome"] == "ok" and line["bytes"] > 0 for line in lines)
        assert {line["name"] for line in lines} == {"loaders=2", "loader-1", "loader-2", *links}
        assert {line["name"]: line["address"] for line in lines if "address" in line} == links
        together = [
            line["bytes"] * 1e9 / line["interval_ns"] for line in lines if line["name"] == "loaders=2"
        ]
        assert cell.ceilings["raw TCP"].value == pytest.approx(sorted(together)[1])


def test_several_stores(cluster: RayCluster, tmp_path: Path) -> None:
    """Three hosts load. Each series is on one of two others, which hold all points and keep nothing."""
    given = ("--scale", 0.0002, "--loaders", 3, "--servers", 2, "--streams", 6)
    (found,) = run(cluster, tmp_path / "run", "ingest-32", *given)
    assert [host["streams"] for host in found["hosts"]] == [[0, 2], [2, 2], [4, 2]]
    assert found["target"]["servers"] == len(set(addresses(found))) == 2
    assert not set(addresses(found)) & {host["address"] for host in found["hosts"]}
    assert found["verification"]["rows"] == found["counts"]["rows"] == 6 * 17_280
    assert found["counts"]["stored_bytes"] > 0
    told = load(tmp_path / "run").environment["server_hosts"]
    (stores,) = told.values()
    # Their ports are others for every trial.
    assert [address.rpartition(":")[0] for address in stores] == addresses(found)
    assert all(one["settings"]["durable"] == "os" for one in stores.values())
    # Hosts share this machine's files, and this process's directory for temporary ones is its own.
    assert not glob.glob(f"{tempfile.gettempdir()}/venturi-store-*")


@pytest.fixture
def database(cluster: RayCluster) -> Iterator[str]:
    """MariaDB on the last host, as a user would have it there."""
    available("mariadb")
    host = cluster.hosts[4]
    words = command("serve", "mariadb", "--host", host.address, "--port", 0, "--json", "--exit-with-parent")
    with ServerProcess([*host.inside(), *words], environment()) as server:
        yield f"mysql://venturi@{host.address}:{server.ready['url'].rpartition(':')[2]}"


def test_upsert_scale(cluster: RayCluster, database: str, tmp_path: Path) -> None:
    """Ever more hosts, with as many streams each."""
    fewer = ("--loaders", "1,2,4", "--streams", "2,4,8", "--set", 'matrix.zip=[["loaders","streams"]]')
    amount = ("--duration", "300ms", "--working-set", "2k")
    found = run(cluster, tmp_path / "run", "upsert-scale", "--target", database, *fewer, *amount)
    shape = {(r["parameters"]["loaders"], r["parameters"]["streams"]) for r in found}
    assert shape == {(1, 2), (2, 4), (4, 8)}
    assert all(host["rows"] > 0 for record in found for host in record["hosts"])


def test_rows_out_of_a_database(cluster: RayCluster, database: str, tmp_path: Path) -> None:
    """Written by the first loader; each of four streams on two hosts reads its part."""
    given = ("--operation", "get", "--rows-per-stream", "5k", "--rows-per-batch", "1k", "--split", "hash")
    found = run(cluster, tmp_path / "run", f"--target={database}", *given, "--loaders", 2, "--streams", 4)
    for record in found:
        assert record["verification"]["achieved"] == "checksum"
        assert record["counts"]["rows"] == 20_000 == sum(host["rows"] for host in record["hosts"])
        assert len(record["hosts"]) == 2
