"""Pools of threads as the narrow place: proof, sentence, and what to try."""

from __future__ import annotations

from typing import Any

import pytest

from support.verdict import SECOND, end, trial, verdict
from venturi.analysis.cells.summary import summarise
from venturi.analysis.verdict.findings import findings
from venturi.analysis.verdict.judge import verdicts
from venturi.analysis.verdict.types import Verdict

ENVIRONMENT = {"command": ["venturi", "run", "--target", "charrow://10.0.0.2:9006"]}


def pool(threads: int, busy: float) -> dict[str, int]:
    return {"threads": threads, "busy_ns": int(busy * threads * SECOND), "time_ns": threads * SECOND}


def judged(
    encoders: tuple[int, float] = (1, 0.3),
    decoders: tuple[int, float] = (1, 0.3),
    *,
    client: dict[str, float] | None = None,
    server: dict[str, float] | None = None,
    cores: int = 8,
    busy: float = 0.4,
    streams: int = 1,
    **parameters: Any,
) -> Verdict:
    settings = {
        "target": "charrow://10.0.0.2:9006",
        "streams": streams,
        "threads": streams,
        "encoders": encoders[0],
        "decoders": decoders[0],
        **parameters,
    }
    host = end(busy, cores)
    half = busy * cores / 2
    return verdict(
        client if client is not None else {"await_input": 0.7, "receive": 0.1, "decode": 0.2},
        server if server is not None else {"await_input": 0.3, "generate": 0.1, "encode": 0.4, "send": 0.2},
        parameters=settings,
        client_end=host,
        server_end=host,
        cpu=(half, half),
        pools={"client": {"decoders": pool(*decoders)}, "server": {"encoders": pool(*encoders)}},
        environment=ENVIRONMENT,
    )


def test_encoders_that_are_busy_are_the_place_and_twice_as_many_are_proposed() -> None:
    found = judged(encoders=(4, 0.97))
    assert (found.kind, found.end, found.stage, found.title) == (
        "stage",
        "server",
        "encode",
        "server: encoders",
    )
    assert found.sentence.startswith(
        "the server's 4 encoders are busy 97 %: encode 78 %, generate 19 %; the client"
    )
    assert (
        found.next[0].startswith("encoders: 4 -> 8: venturi run --target charrow://10.0.0.2:9006")
        and "--encoders 8" in found.next[0]
    )
    assert found.confidence == "high" and not found.flagged


def test_no_more_encoders_are_proposed_than_the_server_has_cpus() -> None:
    found = judged(encoders=(6, 0.97))
    assert found.next[0].startswith("encoders: 6 -> 8")
    found = judged(encoders=(8, 0.97))
    assert not any(text.startswith("encoders") for text in found.next)
    assert any(text.startswith("more or faster cores at the server") for text in found.next)


def test_decoders_that_are_busy_are_the_place() -> None:
    found = judged(decoders=(1, 0.95))
    assert (found.kind, found.end, found.title) == ("stage", "client", "client: decoders")
    assert "the client's 1 decoder is busy 95 %: decode 95 %" in found.sentence
    assert found.next[0].startswith("decoders: 1 -> 2") and "--decoders 2" in found.next[0]


def test_decoders_that_check_values_are_the_load_generator() -> None:
    found = judged(
        decoders=(2, 0.95), client={"await_input": 0.5, "receive": 0.1, "decode": 0.1, "verify": 0.3}
    )
    assert (found.kind, found.flagged, found.title) == ("load-generator", True, "load generator: decoders")
    assert any("--verify count" in text for text in found.next)
    assert found.next[0].startswith("decoders: 2 -> 4")


def test_of_two_pools_the_busier_one_is_named() -> None:
    assert judged(encoders=(2, 0.95), decoders=(1, 0.93)).title == "server: encoders"
    assert judged(encoders=(2, 0.92), decoders=(1, 0.96)).title == "client: decoders"


def test_cores_that_are_full_go_before_a_pool() -> None:
    found = judged(encoders=(4, 0.99), busy=0.99)
    assert found.kind == "cores"


def test_a_pool_near_its_limit_is_named_with_low_confidence() -> None:
    found = judged(encoders=(2, 0.8))
    assert (found.title, found.confidence) == ("server: encoders", "low")
    assert "the busiest, at 80 %" in found.sentence


def test_idle_pools_are_evidence_and_no_verdict() -> None:
    found = judged()
    assert found.title not in ("server: encoders", "client: decoders")
    named = {one.name: one.text for one in found.evidence}
    assert named["server encoders"] == "the server's 1 encoder: busy 30 %"
    assert named["client decoders"] == "the client's 1 decoder: busy 30 %"


def test_the_pools_threads_do_not_pass_for_streams_that_share_a_thread() -> None:
    # One partition that waits and four decoders: half of the workers' time is no whole thread's.
    found = judged(decoders=(4, 0.5), client={"await_input": 0.55, "receive": 0.05, "decode": 0.4})
    assert found.kind != "load-generator"


@pytest.mark.parametrize(
    "missing", [None, {}, {"client": None, "server": None}, {"server": {"encoders": None}}]
)
def test_records_without_pools_are_judged_as_ever(missing: Any) -> None:
    line = trial({"await_input": 0.05, "receive": 0.9}, parameters={"target": "charrow://h:9006"}) | {
        "pools": missing
    }
    found = verdicts(summarise([line]), ENVIRONMENT)
    assert [v.title for v in found.values()] == ["client: receive"]


def test_a_sweep_says_partitions_and_what_opens_it() -> None:
    lines = []
    for encoders, rate in ((1, 120e6), (2, 237e6), (4, 458e6)):
        for streams in (1, 2):
            settings = {"target": "charrow://h:9006", "streams": streams, "threads": streams,
                        "encoders": encoders, "decoders": 1}  # fmt: skip
            for repeat in range(5):
                line = trial(parameters=settings, rate=rate * (1 + 0.001 * repeat), repeat=repeat,
                             cell=f"{streams}-{encoders}")  # fmt: skip
                lines.append(line | {"pools": {"client": None, "server": {"encoders": pool(encoders, 0.96)}}})
    cells = summarise(lines)
    found = findings(cells, verdicts(cells, ENVIRONMENT), ENVIRONMENT)
    texts = [f"{one.title}; {one.sentence}" for one in found]
    assert any("linear up to 4 encoders" in text for text in texts), texts
    assert any("1 partition already moves" in text for text in texts), texts
    assert not any(" stream" in text for text in texts), texts
