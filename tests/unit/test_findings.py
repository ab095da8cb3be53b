"""What a sweep says as a whole: cases are in tests/data/findings.toml, words in golden/findings.txt there."""

from __future__ import annotations

import tomllib
from typing import Any

from support.golden import kept
from support.run import DATA
from support.synthetic import cells as matrix
from support.synthetic import imported, make_run
from support.verdict import ENVIRONMENT, end, summarise, trial
from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import load
from venturi.analysis.verdict.findings import findings
from venturi.analysis.verdict.judge import verdicts
from venturi.analysis.verdict.types import Finding, FindingKind


def sweep(
    points: dict[float, float], axis: str = "streams", spread: float = 0.01, repeats: int = 5, **fixed: Any
) -> list[dict[str, Any]]:
    """Trials along an axis: value -> MB/s. From 4 streams on both cores are full, as their stages say."""
    made = []
    for x, rate in points.items():
        full = end(0.97 if axis != "streams" or x >= 4 else 0.6, 2)
        streams = {"streams": int(x), "threads": int(x)} if axis == "streams" else {axis: int(x)}
        parameters = {"rows_per_batch": 1024, **streams, **fixed}
        for repeat in range(repeats):
            made.append(
                trial(
                    {"receive": 0.62, "verify": 0.2, "await_input": 0.18},
                    {"send": 0.5, "await_output": 0.5},
                    parameters=parameters, cell=repr(sorted(parameters.items())), repeat=repeat,
                    rate=rate * 1e6 * (1 + spread * (repeat - repeats // 2)),
                    client_end=full, server_end=full, cpu=(1.1, 0.8),
                )
            )  # fmt: skip
    return made


def trials(
    points: dict[str, float] | None = None,
    rates: dict[str, list[float]] | None = None,
    fixed: dict[str, Any] | None = None,
    unpaired: bool = False,
    fail_after: int | None = None,
    spread: float = 0.01,
    **more: Any,
) -> list[dict[str, Any]]:
    """Trials of a sweep in the table. `rates`: those of each trial; `unpaired`: a slow repeat of one point is
    a fast one of its neighbour; `fail_after`: trials from this repeat on failed."""
    made: list[dict[str, Any]] = []
    for number, (x, rate) in enumerate((points or {}).items()):
        turned = spread * (-1) ** number if unpaired else spread
        made += sweep({float(x): rate}, spread=turned, **more, **(fixed or {}))
    for x, each in (rates or {}).items():
        single = (sweep({float(x): rate}, repeats=1)[0] for rate in each)
        made += [{**one, "repeat": repeat} for repeat, one in enumerate(single)]
    after = len(made) if fail_after is None else fail_after
    return [{**one, "outcome": "failed"} if one["repeat"] >= after else one for one in made]


CASES: dict[str, Any] = tomllib.loads((DATA / "findings.toml").read_text())
RISING, FAILED = (trials(**one) for one in CASES["rising, and the next failed in every trial"]["sweeps"])


def test_kinds_axes_places_and_words() -> None:
    words = []
    for name, case in CASES.items():
        told = found(*(trials(**one) for one in case["sweeps"]))[0]
        assert [[one.kind.value, one.axis, one.at or "none"] for one in told] == case["found"], name
        lines = [line for one in told for line in (one.title, *one.lines, *one.next)]
        words.append("\n".join([f"# {name}", *lines, ""]))
    kept("findings", "\n".join(words))


def found(*sweeps: list[dict[str, Any]]) -> tuple[list[Finding], list[Cell]]:
    cells = summarise([r for s in sweeps for r in s])
    return findings(cells, verdicts(cells, ENVIRONMENT), ENVIRONMENT), cells


def test_what_failed_in_every_trial_is_no_verdicts_proposal() -> None:
    cells = found(RISING, FAILED)[1]
    assert not any("--streams 4" in t for v in verdicts(cells, ENVIRONMENT).values() for t in v.next)


def test_axes_operations_and_imported_runs(tmp_path: Any) -> None:
    assert load(make_run(tmp_path / "one", matrix(operations=["get"], streams=[2]))).findings == []
    titles = [f.title for f in load(make_run(tmp_path / "run")).findings]
    assert {title[:3] for title in titles} == {"get", "put"}
    results = load(make_run(tmp_path / "imported", edit=imported))
    assert results.findings and all("why is not known" in f.sentence for f in results.findings)


def test_the_published_limits() -> None:
    """What their authors wrote of the laptop, over many sizes; of one trial each nothing is claimed."""
    (get,) = [f for f in load("reference:macbook-get").findings if f.axis == "streams"]
    assert "flat from 5 streams" in get.title and "one trial" not in get.sentence
    (put,) = [f for f in load("reference:macbook-put").findings if f.axis == "streams"]
    assert "rising up to 8 streams" in put.title and "flat" not in put.title + put.sentence
    for one in load("reference:chspark").findings:
        assert one.kind is FindingKind.UNDECIDED and "one trial of each gives no margin" in one.sentence
