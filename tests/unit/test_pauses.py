"""What is said of an end that stood still for a part of a trial."""

from __future__ import annotations

from support.verdict import cell_of, end, trial
from venturi.analysis.advice.trials import stood_still


def test_a_short_pause_is_a_warning() -> None:
    """It names the end that stood still longest, and in how many trials one did."""
    still, short = (end(process={"paused_ns": ns}) for ns in (30_000_000, 20_000_000))
    cell = cell_of(trial(client_end=short), trial(server_end=still, repeat=1), trial(repeat=2))
    advice = stood_still([cell])
    assert advice is not None and advice.kind == "paused"
    assert advice.finding == "the server did not run for 0.03 s of 1 s (2 of 3 trials had a pause)"


def test_where_nothing_stood_still_there_is_none() -> None:
    assert stood_still([cell_of(trial())]) is None
