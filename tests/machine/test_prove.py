"""`venturi prove` on the real core and real servers, here and now.

On recorded trials the same self-tests are judged by tests/unit/test_prove.py, unbroken and broken.
"""

from __future__ import annotations

import contextlib
import threading

import pytest

import venturi
from support import redis as redis_support
from support.flight_peer import Tables
from support.needs import require_server
from venturi.measure.prove.bench import Bench
from venturi.measure.prove.outcome import CheckKind, Outcome, Proof, ProofName


def proved(url: str, *only: str) -> dict[ProofName, Proof]:
    """The self-tests of a target by their names; none of them fails."""
    found = {one.name: one for one in venturi.prove(url, only=only or None)}
    assert not [one.failures for one in found.values() if one.failures]
    return found


def test_all_pass_on_the_real_core() -> None:
    """Twin: test_prove.py, test_each_passes_on_recorded_trials."""
    found = venturi.prove()
    assert {one.name: one.outcome for one in found} == dict.fromkeys(ProofName, Outcome.PASSED)


@pytest.mark.parametrize(
    "url", ["charrow://local", "sqlite://local", "opentsdb://local", "influx://local", "duckdb://local"]
)
def test_other_targets_as_far_as_it_goes(url: str) -> None:
    found = proved(url, "rate", "lies")
    assert found[ProofName.RATE].outcome in (Outcome.PASSED, Outcome.INCONCLUSIVE)
    # What was not made is said with its reason.
    assert found[ProofName.INJECTED_FAULTS].checks or found[ProofName.INJECTED_FAULTS].missing


def test_a_foreign_server_as_far_as_it_goes() -> None:
    with Bench("flight://local") as ours:
        url = ours.url_of()
        found = proved(url, "lies")
    assert found[ProofName.INJECTED_FAULTS].figures == {"lies": 5.0, "caught": 5.0}


@pytest.mark.parametrize(("table", "told"), [("t", True), ("empty", False)])
def test_a_table_that_is_there_already(table: str, told: bool) -> None:
    with Tables("grpc://127.0.0.1:0", "grpc") as server:
        threading.Thread(target=server.serve, daemon=True).start()
        url = f"flight://127.0.0.1:{server.port}/{table}"
        found = proved(url, "difference")
    assert (found[ProofName.DIFFERENCE].outcome is Outcome.NOT_APPLICABLE) is not told


@pytest.mark.parametrize("scheme", ["cassandra", "clickhouse", "mysql", "postgres", "redis"])
def test_databases_as_far_as_it_goes(scheme: str) -> None:
    """A connection that ends is lost, and leaves the upsert on its way in doubt."""
    with redis_support.found() if scheme == "redis" else contextlib.nullcontext():
        require_server(scheme)
        found = proved(f"{scheme}://local")
    told = found[ProofName.INJECTED_FAULTS]
    assert told.outcome in (Outcome.PASSED, Outcome.INCONCLUSIVE)
    if told.outcome is Outcome.PASSED and scheme != "clickhouse":
        assert [check.found for check in told.checks if check.what is CheckKind.DOUBT] == [1]
