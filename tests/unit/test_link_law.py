"""The law over links against known truth, and what is said and drawn of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import synthetic
from support.verdict import summarise
from venturi.analysis import results
from venturi.analysis.models import fit_words, link_law, over_links
from venturi.analysis.models.link_law import LinkLaw
from venturi.analysis.models.link_law import Path as Way
from venturi.common import links
from venturi.report import draw
from venturi.report.figures import registry

LINKS = (
    *("20mbit 10ms", "50mbit 40ms", "100mbit 10ms", "200mbit 20ms", "200mbit 80ms", "500mbit 5ms", "1gbit"),
    *("1gbit 20ms", "1gbit 80ms", "2gbit 2ms", "unshaped"),
)
ENDS, PART, WINDOW, SHARP = 400e6, 0.98, 1 << 20, 5.0
FIRST = 10
"""Packets that a connection begins with."""


def truth(way: Way, ends: float = ENDS, ratio: float = 1.0, window: float = 0.9 * WINDOW,
          lost: float = 0.0, streams: int = 1, seconds: float = math.inf, away: float = 0.0,
          cubic: bool = False) -> float:  # fmt: skip
    """Bytes/s of the payload. Near the crossing of two bounds both hold back, which the law does not know.
    `window` and `lost` are those of all streams together; `away` is on its way when the time is up. Without
    `seconds` a trial has no start."""
    bounds = [ends, PART * ratio * way.carried, ratio * window / way.trip]
    if way.loss and cubic:
        # RFC 9438, figure 7, for C = 0.4: 1.054 x (RTT / p)^0.75 packets; and what Reno has at least.
        window = max(1.054 * (way.trip / way.loss) ** 0.75, math.sqrt(1.5 / way.loss))
        bounds.append(lost * way.segment / way.trip * window)
    elif way.loss:
        bounds.append(lost * way.segment / way.trip * math.sqrt(1.5 / way.loss))
    rate = float(sum(b**-SHARP for b in bounds if math.isfinite(b)) ** (-1 / SHARP))
    if math.isinf(seconds):
        return rate
    packets = rate / PART / ratio * way.trip / way.segment
    spent = way.trip * max(0.0, math.log2(packets / (FIRST * streams)))
    return rate * seconds / (seconds + spent + away / rate)


def cells(texts: tuple[str, ...] = LINKS, repeats: int = 3, seed: int = 1, ratio: float = 1.0,
          operation: str = "get", more: dict[str, Any] | None = None, seconds: float = 1000.0,
          streams: int = 1, found: dict[str, Any] | None = None,
          **law: Any) -> list[dict[str, Any]]:  # fmt: skip
    """Records of trials over these links; those under 1,000 s have a start. `found`: the link as measured."""
    draw = np.random.default_rng(seed)
    out = []
    for text in texts:
        p = synthetic.parameters(operation, streams, link=links.canonical(text), cross=None, window=WINDOW)
        p |= {"duration_ns": round(seconds * 1e9), "rows_per_stream": None, **(more or {})}
        at = link_law.path(links.parse(text), links.way(operation), p["cross"] or 0.0)
        starts: dict[str, Any] = {} if seconds == 1000 else {"seconds": seconds}
        mean = truth(at, ratio=ratio, streams=streams, **starts, **law)
        mean *= math.exp(0.02 * draw.standard_normal())
        name = f"{operation}-{text}-{streams}-{sorted((more or {}).items())}"
        for repeat in range(repeats):
            moved = int(mean * math.exp(0.015 * draw.standard_normal()) * seconds)
            record: dict[str, Any] = {
                "format": 1, "run": "r", "trial": f"{name}-{repeat}", "cell": name, "repeat": repeat,
                "warmup": False, "parameters": p, "outcome": "ok",
                "counts": {"rows": moved // 32, "batches": 1 + moved // 131072, "payload_bytes": moved,
                           "wire_bytes": int(moved / ratio)},
                "times": {"interval_ns": round(seconds * 1e9)},
            }  # fmt: skip
            out.append(record | ({"link": found} if found else {}))
    return out


def written(path: Path, records: list[dict[str, Any]]) -> results.Results:
    """A run of these trials."""
    synthetic.make_run(path, synthetic.cells(("get",), (1,)), ceilings=False, samples=False)
    (path / "trials.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return results.load(path)


def made(records: list[dict[str, Any]]) -> list[over_links.LinkFit]:
    return over_links.build(summarise(records))


def fitted(records: list[dict[str, Any]]) -> tuple[over_links.LinkFit, LinkLaw]:
    """The only setting, with its law."""
    (one,) = made(records)
    assert one.law is not None, one.refused
    return one, one.law


def test_the_numbers_are_found_again_and_what_limits_each_link_is_said_first() -> None:
    one, law = fitted(cells())
    assert law.numbers[:3] == pytest.approx((ENDS, PART, 0.9 * WINDOW), rel=0.06)
    assert one.limited_by["unshaped"] == "ends" and one.limited_by["1gbit"] == "link"
    first, advice, error = fit_words.link_sentences(one)
    assert first.startswith("7 of 11 links are limited by the link's rate (0.9")
    assert (
        "; 3 by the window (9" in first and "flight at most): 1gbit 20ms, 1gbit 80ms, 200mbit 80ms;" in first
    )
    # Without unshaped no link shows what the ends do.
    assert error.startswith("of 10 links that the others can predict, half are within ")
    # The widest window that is needed is more than TCP's own.
    assert advice.startswith("over a link without a rate, the window is the limit from 2.")
    assert "; set --window none; then" in advice and "tcp_rmem sets" in advice
    document = fit_words.document([one], [], {})["fits"][0]
    assert document["limited_by"] == one.limited_by and document["bounds"]["ends"]["seen"]
    assert document["bounds"]["ends"]["low"] is document["bounds"]["ends"]["high"] is None
    assert document["bounds"]["losses"] == {"value": 1, "low": 0.5, "high": 2, "seen": False}


def test_one_disturbed_link_bends_nothing() -> None:
    records = cells()
    for record in records:
        if record["parameters"]["link"] == "200mbit 20ms":
            record["counts"]["payload_bytes"] //= 2
    assert fitted(records)[1].numbers[1:3] == pytest.approx((PART, 0.9 * WINDOW), rel=0.06)
    # What one stream leaves of every link unused is no part of what the link carries.
    for record in records:
        record["times"]["interval_ns"] *= 2
    assert fitted(records)[1].numbers[1] == pytest.approx(1, rel=0.1)


MATHIS = ("100mbit 20ms loss 0.1%", "100mbit 20ms loss 1%", "1gbit 40ms loss 0.05%")
# Far away with few losses CUBIC's rate is above Reno's, which is that of the last.
CUBIC = ("200mbit 160ms loss 0.01%", "500mbit 80ms loss 0.01%", "100mbit 80ms loss 0.5%")


@pytest.mark.parametrize(
    ("texts", "law", "left_out", "said"),
    [
        (LINKS, {}, LINKS[:-1], "by the window"),
        (LINKS, {"streams": 16, "seconds": 1.0, "away": 15 / 2 * 131_072, "window": 1e12}, LINKS[:-1],
         "by the link's rate"),
        (LINKS, {"ratio": 3.0, "ends": 90e6, "more": {"compression": "zstd"}}, LINKS,
         "by the ends' own rate"),
        ((*LINKS[:8], *MATHIS), {"found": {"control": "reno"}, "lost": 1.1}, MATHIS,
         "of Mathis's rate"),
        ((*LINKS[:8], *CUBIC), {"found": {"control": "cubic"}, "lost": 0.8, "cubic": True, "window": 1e12},
         CUBIC, "of CUBIC's rate"),
    ],
    ids=["window", "start", "compression", "Mathis", "CUBIC"],
)  # fmt: skip
def test_links_left_out_are_predicted(
    texts: tuple[str, ...], law: dict[str, Any], left_out: tuple[str, ...], said: str
) -> None:
    from scipy.special import bdtr

    inside, errors = 0, []
    for seed in range(4):
        (one,) = made(cells(texts, seed=seed, **law))
        assert said in fit_words.link_sentences(one)[0]
        for text, measured, found in one.left_out(map(links.canonical, left_out)):
            assert found is not None, text
            inside += found.low <= measured <= found.high
            errors.append(math.log(found.median / measured))
    # So few are inside by chance once in a hundred times; and errors lean to neither side.
    assert bdtr(inside, len(errors), 0.95) > 0.01 and abs(np.median(errors)) < 0.02
    assert np.median(np.abs(errors)) < 0.05 and np.quantile(np.abs(errors), 0.9) < 0.12


def test_what_no_link_shows_is_refused_with_a_link_that_would_decide() -> None:
    slow, _ = fitted(cells(("20mbit 1ms", "50mbit 1ms", "100mbit 1ms", "100mbit 2ms", "50mbit 2ms")))
    for text, why in (
        ("unshaped", "no measured link was limited by the ends' own rate"),
        ("100mbit 2s", "no measured link was limited by the window"),
        ("50mbit 2ms loss 1%", "no link with losses was measured"),
        ("50mbit 2ms cubic", "no link was measured with cubic"),
    ):
        with pytest.raises(over_links.Refused, match=why) as refused:
            slow.predict(links.parse(text), 0.0)
        assert ("--link" in refused.value.hint) == ("cubic" not in text)
    # More was in flight than the window is known to let through: nothing says how much more.
    wide, _ = fitted(cells(LINKS[:8], more={"window": WINDOW // 16}, window=1e12))
    with pytest.raises(over_links.Refused, match="MB/s or more; no measured link was limited by the ends"):
        wide.predict(links.parse("unshaped"), 0.0)
    few = made(cells(LINKS[:3]))[0]
    assert few.law is None and few.refused == "only 3 links were measured, 4 are needed"
    assert few.limited_by == {} and fit_words.link_sentences(few) == [f"no law: {few.refused}"]


def test_an_unseen_bound_is_a_doubt_and_widens_the_interval() -> None:
    one, law = fitted(cells(LINKS[:8], found={"control": "reno"}))
    calm, lossy, fast = (
        one.path(links.parse(t)) for t in ("100mbit 10ms", "100mbit 10ms loss 0.01%", "2gbit")
    )
    doubts = [one.doubt(at).removeprefix("no measured link was limited by ") for at in (calm, lossy, fast)]
    assert doubts == ["", "losses", "the ends' own rate"]
    assert fit_words.link_sentences(one)[-1] == (
        "no measured link was limited by the ends' own rate (measure unshaped), losses (measure losses)"
    )
    # Down to half of Mathis's rate.
    assert law.predict(lossy).low < 0.8 * law.predict(calm).low
    widths = [math.log(f.high / f.low) for t in (30, 160, 320)
              for f in [one.predict(links.parse(f"200mbit {t}ms"), 0.0)]]  # fmt: skip
    assert widths == sorted(widths)
    assert law.outside(one.path(links.parse("200mbit 160ms"))) == pytest.approx(2)


def test_losses_without_a_law_are_errors_which_the_interval_has() -> None:
    """BBR minds losses a little, by no law of ours; of an unknown control nothing is known."""
    for found in ({"control": "bbr"}, None):
        lossy = ("100mbit 20ms loss 0.1%", "200mbit 10ms loss 1%", "50mbit 40ms loss 0.5%")
        records = cells((*LINKS[:8], *lossy), found=found, lost=1e12)
        for record in records:
            record["counts"]["payload_bytes"] = round(
                record["counts"]["payload_bytes"] * (0.8 if "loss" in record["parameters"]["link"] else 1)
            )
        one, law = fitted(records)
        assert set(one.limited_by[text] for text in lossy) == {"link"}
        calm, lost = (law.predict(one.path(links.parse(text))) for text in ("100mbit 10ms", lossy[0]))
        assert lost.low < 0.8 * lost.median and lost.high / lost.low > 1.3 * calm.high / calm.low


def test_links_far_off_their_law_predict_nothing() -> None:
    records = cells(LINKS[:6])
    for record in records:
        record["counts"]["payload_bytes"] >>= LINKS.index(record["parameters"]["link"]) % 3
    one, _ = fitted(records)
    with pytest.raises(over_links.Refused, match="they are too far from the law") as refused:
        one.predict(links.parse("100mbit 15ms"), 0.0)
    assert refused.value.hint == "a link that would decide: --link '100mbit 15ms'"


BATCH = 4096 * 32


@pytest.mark.parametrize(
    ("operation", "more", "ends", "counts", "fastest", "rate"),
    [
        ("upsert", {"streams": 1, "in_flight": 1, "rows_per_batch": 500}, 3e-3,
         {"rows": 500_000, "payload_bytes": 16_000_000, "wire_bytes": 0}, "100mbit", 500 / 83e-3),
        ("put", {"ack": "batch", "in_flight": 16, "window": None}, 1e-3,
         {"rows": 4096 * 1000, "payload_bytes": 1000 * BATCH, "wire_bytes": 1010 * BATCH}, "1gbit 2ms",
         BATCH / 81e-3),
    ],
)  # fmt: skip
def test_a_batch_that_waits_for_its_answer_takes_a_round_trip_more(
    operation: str, more: dict[str, Any], ends: float, counts: dict[str, int], fastest: str, rate: float
) -> None:
    """With one stream and one batch in flight times add up."""
    records = cells((*(f"unshaped {trip}ms" for trip in (1, 5, 10, 20, 40)), fastest), operation=operation,
                    more=more)  # fmt: skip
    draw = np.random.default_rng(3)
    for record in records:
        trip = link_law.path(links.parse(record["parameters"]["link"]), "up").trip
        record["counts"] |= counts | {"batches": 1000}
        record["times"]["interval_ns"] = 1e12 * (ends + trip) * math.exp(0.01 * draw.standard_normal())
    one, law = fitted(records)
    assert one.unit == ("rows/s" if operation == "upsert" else "B/s")
    assert law.setting.waits and not law.setting.starts
    found = one.predict(links.parse("unshaped 80ms"), 0.0)
    assert found.low <= rate <= found.high and found.median == pytest.approx(rate, rel=0.06)
    assert law.bound(one.path(links.parse("unshaped 80ms"))) == "flight"


def test_what_limits_what_is_in_flight() -> None:
    """The client's window limits what it gets, its send buffer what it sends; above TCP's own no other."""
    for operation, window, buffer, ack, held in (
        ("get", WINDOW, None, "stream", "window"),
        ("get", None, WINDOW, "stream", "tcp"),
        ("get", 64 << 20, None, "stream", "tcp"),
        ("put", WINDOW, None, "stream", "tcp"),
        ("put", WINDOW, 2 * WINDOW, "stream", "send_buffer"),
        ("put", None, None, "batch", "answers"),
    ):
        more = {"window": window, "send_buffer": buffer, "ack": ack}
        one, law = fitted(cells(LINKS[:4], operation=operation, more=more, repeats=1))
        assert over_links.held_by(one.cells[0]) == held
        if held == "tcp":
            assert law.setting.flight == pytest.approx(over_links.TCP_FLIGHT, rel=0.05)


def test_the_fastest_link_is_that_of_the_data_s_way() -> None:
    slow = tuple(f"50mbit {ms}ms" for ms in (10, 40, 160))
    texts = ("1gbit/20mbit 10ms", "1gbit/20mbit", *slow, "100mbit/50mbit")
    more = {"window": None, "send_buffer": WINDOW // 8}
    (one,) = made(cells(texts, operation="put", more=more, window=1e5))
    assert fit_words.link_sentences(one)[1] == (
        "over 100mbit/50mbit, the send buffer is the limit from 15.7 ms round trip on; "
        "--send-buffer 1303Ki is enough for all measured links"
    )


def test_the_host_s_congestion_control_is_that_of_the_record() -> None:
    (one,) = made(cells(LINKS[:8], found={"control": "cubic"}))
    assert one.control == "cubic" and "congestion" not in one.where
    host, named = (one.predict(links.parse(f"20mbit 10ms loss 0.01%{c}"), 0.0) for c in ("", " cubic"))
    assert host == named
    # Asked for or found, it is the same.
    mixed = [*cells(LINKS[:4], found={"control": "cubic"}), *cells(tuple(f"{t} cubic" for t in LINKS[4:8]))]
    assert [len(found.links) for found in made(mixed)] == [8]


def test_the_traffic_of_others_is_a_setting() -> None:
    both = made([*cells(LINKS[:8]), *cells(LINKS[:8], more={"cross": 50.0}, seed=3)])
    assert sorted((one.where["cross"] or 0, len(one.links)) for one in both) == [(0, 8), (50, 8)]
    (half,) = [one for one in both if one.where["cross"]]
    at = links.parse("100mbit 20ms")
    for cross, rate in ((None, 50), (0.0, 100)):
        found, true = half.predict(at, cross), PART * rate * 1e6 / 8 * at.payload_part
        assert found.low < true < found.high and found.median == pytest.approx(true, rel=0.1)
    assert over_links.crossings(both) == []


def test_loaders_share_what_they_have() -> None:
    """The links of four together carry four times as much, up to their backplane."""
    (four,) = made(cells(LINKS[:4], more={"loaders": 4, "backplane": "500mbit"}, repeats=1))
    one = links.parse("100mbit 10ms")
    assert four.path(one).carried == pytest.approx(4 * link_law.path(one, "down").carried)
    assert four.path(links.parse("1gbit")).carried == four.path(links.parse("500mbit")).carried
    assert made(cells(LINKS[:4], more={"loaders": 4, "backplane": "some"}, repeats=1)) == []


def test_links_that_are_alike_along_their_way_make_no_line() -> None:
    for operation, alike in (
        ("put", ("100mbit 10ms", "100mbit 10ms loss 1%/0%")),
        ("get", ("100mbit/20mbit 10ms", "100mbit/50mbit 10ms")),
    ):
        (one,) = made(cells(alike, operation=operation, repeats=1))
        assert [over_links.lines(one, along) for along in over_links.ATTRIBUTES] == [[], [], []]


def test_what_was_on_its_way_is_not_taken_for_a_protocol() -> None:
    """More was on the wire than a get counts that ends with its time; and one odd trial is one."""
    records = cells(LINKS[:4])
    for record in records:
        record["counts"]["wire_bytes"] = int(1.25 * 1.02 * record["counts"]["payload_bytes"])
        record["verification"] = {"rows": int(1.25 * record["counts"]["rows"])}
    records[0]["counts"]["wire_bytes"] //= 2
    assert fitted(records)[1].setting.per_byte == pytest.approx(1 / 1.02, rel=0.01)


def test_links_that_nobody_knows_are_left_out() -> None:
    records = cells()
    unknown = {"1gbit": "1gbit over a pigeon", "2gbit 2ms": 7}
    for record in records:
        link = record["parameters"]["link"]
        record["parameters"]["link"] = unknown.get(link, link)
    assert len(made(records)[0].links) == len(LINKS) - 2
    # Cells of one link make no fit, and datagrams have no law of TCP.
    assert made(cells(("100mbit",))) == []
    assert made(cells(LINKS[:4], more={"target": "akumuli+udp://127.0.0.1:8383"}, repeats=1)) == []


def test_settings_cross_where_the_truth_does_and_figures_show_it(tmp_path: Path) -> None:
    """Two codecs over many links, of which one shrinks data and has slower ends. A link may have a name."""
    texts = (*LINKS[:8], "100mbit 80ms", "500mbit 10ms", "50mbit 10ms", "1gbit 10ms", "2gbit 10ms", "1GbE")
    shrunk: dict[str, Any] = {"ratio": 3.0, "ends": 90e6, "more": {"compression": "zstd"}, "seed": 2}
    # All trials of one cell have failed.
    records = cells(tuple(t for t in texts if t != "100mbit 10ms"), window=8 * WINDOW)
    found = written(tmp_path / "run", [*records, *cells(texts, window=8 * WINDOW, **shrunk)])
    (one,) = [c for c in found.link_crossings if c.along == "rate" and "10ms" in c.link.text]
    assert one.below.where == {"compression": "zstd"} and one.above.where == {"compression": None}
    # Plain carries 90 MB/s at 98 % of TCP's part of so many Mbit/s.
    true = 90e6 * 8 / PART / links.parse("1gbit").payload_part / 1e6
    assert one.low < true < one.high and one.at == pytest.approx(true, rel=0.15)
    assert "compression zstd is faster than no compression below" in fit_words.crossing_sentence(one)
    figures = {figure.name: figure for figure in registry.build(found)}
    assert {"throughput-delay", "throughput-link-rate"} <= figures.keys() and "throughput-loss" not in figures
    rate = figures["throughput-link-rate"]
    panel = next(p for p in rate.panels if p.title == "get, 10 ms round trip")
    assert {"no compression", "compression zstd", "crossing"} == {s.name for s in panel.series}
    points = next(s for s in panel.series if s.name == "no compression" and s.mark == "points")
    assert points.x == [20, 50, 500, 1000, 2000]
    assert all(lo < y < hi for lo, y, hi in zip(points.low or [], points.y, points.high or [], strict=True))
    for figure in (rate, figures["throughput-delay"]):
        assert all(draw.panel(figure, panel) for panel in figure.panels)
        assert draw.Drawing.of(figure).svg().startswith("<svg")
