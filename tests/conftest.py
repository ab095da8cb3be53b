"""Fixtures of all tests. What decides a test is its folder: `unit` facts, `servers` other people's programs,
`machine` this machine itself."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from support.database import cassandra, firebird, mariadb, open_directory, postgres, start_database  # noqa: F401 - fixtures
from support.draws import draws
from support.flight import Certificates, ServerProcess, Start, peer_command, serve_command
from support.needs import require
from support.records_schema import records_follow_the_schema  # noqa: F401 - a fixture of every module

SHARED = ("cassandra", "postgres", "mariadb", "engine", "clickhouse")
"""Fixtures that are servers: one worker runs all tests with one of them."""
LONG = (
    *("duckdb", "test_compare", "test_interrupts", "test_report_files", "test_mistakes", "test_upsert_run"),
    *("spark", "test_spark_cluster", "test_links_run", "test_spark_placement", "cassandra"),
    *("test_serve_databases", "test_cluster_up", "test_cluster_ray", "test_builtin_scenarios"),
    *("test_cluster_faults", "test_cluster_slurm", "test_cluster_remote", "test_links_servers"),
)
"""Groups that take long, the longest first: they begin first, so that no worker is left alone with one."""
TEMPORARY = pytest.StashKey[tuple[str | None, str]]()

# Workers share the cores already: threads of the linear algebra would only wait for one another.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell starts what runs in the background with SIGINT ignored, and children inherit that: the commands
# that tests start and interrupt would never hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says how busy the machine is, and nothing of what is tested.
hypothesis.settings.register_profile(
    "patient", max_examples=draws(100, 4), deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)  # fmt: skip
hypothesis.settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    """Each process of the run has a directory for temporary files to itself: what one test counts there, no
    other makes. A short path, as those of Unix sockets have to be."""
    gc.disable()  # what is collected stays
    config.stash[TEMPORARY] = before = os.environ.get("TMPDIR"), tempfile.mkdtemp(prefix="vt-")
    os.chmod(before[1], 0o1777)  # as /tmp is: databases of root's run as other accounts
    os.environ["TMPDIR"] = before[1]
    tempfile.tempdir = None


def pytest_unconfigure(config: pytest.Config) -> None:
    before, place = config.stash[TEMPORARY]
    if before is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = before
    tempfile.tempdir = None
    shutil.rmtree(place, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in this hook too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs all tests that share a server, whatever their files, so a run starts it once. Of the
    other tests one worker runs those of a file, which share its fixtures, unless they have a group."""
    turns = dict[pytest.Item, int]()
    for item in items:
        shared = [name for name in SHARED if name in getattr(item, "fixturenames", ())]
        if not (marker := item.get_closest_marker("xdist_group")):
            marker = pytest.mark.xdist_group(shared[0] if shared else item.path.stem).mark
            item.add_marker(pytest.mark.xdist_group(marker.args[0]))
        group = marker.args[0]
        turns[item] = LONG.index(group) if group in LONG else len(LONG)
    items.sort(key=turns.__getitem__)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Stops a run whose workers would take a file apart: clusters of one file have the same addresses."""
    if session.config.getoption("loadgroup", False):
        assert all("@" in item.nodeid for item in session.items), "pytest-xdist did not group the tests"
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache directory of the tests' own, also for the commands that they start."""
    before = os.environ.get("XDG_CACHE_HOME")
    place = tmp_path_factory.mktemp("cache")
    # What was downloaded once (tools/install-servers) is not downloaded again.
    (place / "venturi").mkdir()
    for downloaded in (Path(before) if before else Path.home() / ".cache").glob("venturi/cassandra-*"):
        (place / "venturi" / downloaded.name).symlink_to(downloaded)
    # Workers share what takes seconds to bundle.
    shared = tmp_path_factory.getbasetemp().parent / "vega"
    shared.mkdir(exist_ok=True)
    (place / "venturi" / "vega").symlink_to(shared)
    os.environ["XDG_CACHE_HOME"] = str(place)
    yield place
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture(scope="session")
def core() -> object:
    """The compiled module."""
    try:
        from venturi import _core
    except ImportError:
        require(False, "venturi._core (make)")
    else:
        require(hasattr(_core, "run_trial"), "venturi._core.run_trial")
        return _core


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local Spark, of all modules that one process runs."""
    from support.spark import session

    with session() as made:
        yield made


@pytest.fixture
def servers_in_process(core: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs start the reference servers of `X://local` in this process."""
    from support.local import start_in_process

    monkeypatch.setattr("venturi.servers.local.start_local", start_in_process)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    import trustme

    place = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(place / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(place / "other-ca.pem"))
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    names = ("localhost", "127.0.0.1")
    for name, leaf in {
        "server": authority.issue_cert(*names),
        "client": authority.issue_cert("client@example.org"),
        "expired": authority.issue_cert(*names, not_before=long_ago, not_after=long_ago.replace(year=2021)),
    }.items():
        leaf.private_key_pem.write_to_path(str(place / f"{name}.key"))
        for chained in leaf.cert_chain_pems:
            chained.write_to_path(str(place / f"{name}.pem"), append=True)
    return Certificates(
        ca=place / "ca.pem",
        server=place / "server.pem",
        server_key=place / "server.key",
        client=place / "client.pem",
        client_key=place / "client.key",
        other_ca=place / "other-ca.pem",
        expired=place / "expired.pem",
        expired_key=place / "expired.key",
    )


def _starter(command: Callable[..., list[str]]) -> Iterator[Start]:
    running: list[ServerProcess] = []

    def start(*arguments: object, **environment: str) -> ServerProcess:
        running.append(ServerProcess(command(*map(str, arguments)), environment))
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture(scope="module")
def start_reference_server(core: object) -> Iterator[Start]:
    """`venturi serve flight` with further arguments; keywords are environment variables."""
    yield from _starter(serve_command)


@pytest.fixture(scope="module")
def reference_server(start_reference_server: Start) -> ServerProcess:
    return start_reference_server()


@pytest.fixture(scope="module")
def start_pyarrow_server() -> Iterator[Start]:
    """tests/support/flight_peer.py, a pyarrow server, with arguments."""
    yield from _starter(peer_command)


@pytest.fixture(scope="module")
def pyarrow_server(start_pyarrow_server: Start) -> ServerProcess:
    return start_pyarrow_server()
