"""Pools of threads as the narrow place: proof, sentence, and what to try. The cases are in
tests/data/verdicts/charrow.toml, their words in tests/data/golden/verdicts-charrow.txt."""

from __future__ import annotations

from typing import Any

import pytest

from support.verdict import SECOND, check_table, end, trial, verdict
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
        "target": "charrow://10.0.0.2:9006", "streams": streams, "threads": streams,
        "encoders": encoders[0], "decoders": decoders[0], **parameters,
    }  # fmt: skip
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


def test_causes_and_words() -> None:
    check_table("charrow", judged)


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
