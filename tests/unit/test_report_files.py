"""`venturi report` and `venturi show --format`: every kind of file on every kind of run."""

import json
import re
import shutil
from csv import reader
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.run import venturi
from support.synthetic import HOSTILE, cells, hostile, imported, make_run, without_server
from venturi.analysis.results import load
from venturi.analysis.verdict.types import Remedy
from venturi.report import markdown, tables
from venturi.report import run as runs
from venturi.report.draw import Drawing
from venturi.report.figures import curves, timeline
from venturi.report.figures import registry as figures
from venturi.report.figures.figure import Panel, Series
from venturi.report.page import page as html_page
from venturi.report.page.cells import commands, in_parts

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "failed": {"fail": "streams == 2"},
    "nothing-good": {"fail": "streams > 0", "kind": "unreachable"},
    "empty": {"matrix": []},
    "one": {"matrix": cells(("get",), (1,)), "repeats": 1, "warmup": 0},
    "no-samples": {"edit": lambda line: line | {"samples": None}, "samples": False},
    "foreign": {"edit": without_server},
    "imported": {"edit": imported, "ceilings": False, "environment": {}},
    "hostile": {"edit": hostile},
    "places": {"matrix": cells(("get",), (1, 2), ("local", "remote"), (100_000, 300_000))},
}


@pytest.fixture(scope="module", params=list(KINDS))
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = {"matrix": cells(streams=(1, 2)), "repeats": 2} | KINDS[request.param]
    return make_run(tmp_path_factory.mktemp("runs") / request.param, **options)


def test_page(run: Path, tmp_path: Path) -> None:
    path = html_page.write(run, tmp_path / "report.html", "macbook")
    text = path.read_text(encoding="utf-8")
    assert len(text) < 0.65e6
    assert text.count("<script") == 2
    assert HOSTILE not in text
    assert not list(tmp_path.glob("*.tmp"))
    # It loads nothing.
    assert "default-src 'none'" in text
    head = text.split("<script")[0]
    assert "<img" not in head
    assert re.findall(r'<[a-z]+[^>]*\s(?:src|srcset|action|href)="(?!#)', head) == []
    assert "@import" not in head and "url(" not in head


def test_markdown(run: Path) -> None:
    text = markdown.text(runs.document(load(run)))
    assert text.startswith("# Venturi: ")
    assert "<script>" not in text
    assert all(line.endswith("|") for line in text.splitlines() if line.startswith("|"))
    widths = {line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("| ---")}
    assert len(widths) <= 2  # one for the tables of cells, one for that of failed trials


def test_tables(run: Path, tmp_path: Path) -> None:
    results = load(run)
    written = tables.write(results, tmp_path / "csv", "csv")
    stored = tables.write(results, tmp_path / "parquet", "parquet")
    assert [p.stem for p in written] == [p.stem for p in stored]
    assert {"cells", "trials"} <= {p.stem for p in written}
    for one, other in zip(written, stored, strict=True):
        table = pq.read_table(other)
        with one.open(newline="") as file:
            rows = list(reader(file))
        assert rows[0] == table.column_names
        assert len(rows) == table.num_rows + 1
    assert pq.read_table(tmp_path / "parquet" / "trials.parquet").num_rows == len(results.records)


def test_document_is_json(run: Path) -> None:
    found = json.loads(json.dumps(tables.machine(load(run)), allow_nan=False))
    more = {"places"} if run.name == "places" else set()
    assert set(found) == {"run", "cells", "findings", "failed", "warnings"} | more
    assert all(c["verdict"] is None or c["verdict"]["sentence"] for c in found["cells"])


def test_figures_render(run: Path) -> None:
    results = load(run)
    drawn = figures.build(results, "macbook")
    for figure in drawn:
        assert figure.title and figure.caption.endswith(".") and figure.x_label
    # Drawing takes most of this file's time: all that a figure may have once, and one of runs that lack much.
    seen, new = set[Any](), list[Any]()
    for one in drawn:
        marks = (s.mark for p in one.panels for s in p.series)
        form = {("x", one.x_scale), ("y", one.y_scale), one.shared_x, *marks}
        new += [one] * (not form <= seen)
        seen |= form
    for figure in {"hostile": new, "imported": drawn[-1:], "foreign": drawn[-1:]}.get(run.name, []):
        svg = Drawing.of(figure).svg()
        assert svg.startswith("<svg") and "<script" not in svg
    if run.name == "plain":
        assert Drawing.of(drawn[0]).png().startswith(b"\x89PNG")


def test_same_run_gives_the_same_files(tmp_path: Path) -> None:
    results = load(make_run(tmp_path / "run", cells(("get",), (1, 2)), repeats=2))
    figure = figures.one(results, "throughput-streams")
    assert Drawing.of(figure).svg() == Drawing.of(figure).svg()
    assert html_page.page(results) == html_page.page(load(tmp_path / "run"))


def test_readings_at_start_and_end_make_no_spikes() -> None:
    # As the sampler writes them: one at once, then every 100 ms, one at the end.
    found = timeline.steps([0.0, 100e6, 200e6, 300e6, 301e6])
    assert found.rows == [(0, 1), (1, 2), (2, 3)] and found.seconds == pytest.approx([0.1] * 3)


def test_a_text_among_samples_is_left_out() -> None:
    table = pa.table(
        {
            "t_ns": [0, 10**8],
            "end": 2 * ["client"],
            "rows": [0, 9],
            "note": 2 * ["12"],
            "idle": 2 * [[1.0, None]],
        }
    )
    results: Any = SimpleNamespace(directory=SimpleNamespace(samples=lambda _: table))
    assert set(timeline.ends(results, "t")["client"].columns) == {"t_ns", "rows", "idle"}


def test_boxes_stand_side_by_side(tmp_path: Path) -> None:
    matrix = cells(("get",), (1, 2), ("local", "remote"), (100_000, 300_000))
    figure = figures.one(load(make_run(tmp_path / "run", matrix, repeats=2)), "box-size")
    assert figure.columns == 2
    assert [p.title for p in figure.panels] == [
        f"get, {place}, {streams}" for streams in ("1 stream", "2 streams") for place in ("local", "remote")
    ]
    assert figure.categories == ["100k", "300k"]
    assert len(figure.panels[0].series[0].y) == 4


def test_ceiling_of_another_place_or_size_is_none(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", cells(("get",), (1,)), repeats=2)
    probes = [json.loads(line) for line in (run / "ceilings.jsonl").read_text().splitlines()]

    def share(**change: Any) -> float | None:
        lines = "".join(json.dumps(p | change) + "\n" for p in probes)
        (run / "ceilings.jsonl").write_text(lines)
        return load(run).cells[0].share.value

    assert share() == pytest.approx(0.47, abs=0.03)
    assert share(place="local") is not None
    assert share(place="remote") is None
    assert share(message_bytes=131072 * 2) is not None
    assert share(message_bytes=131072 * 4) is None
    assert share(direction="put") is None
    assert share(outcome="failed") is None


def edited(share: float, **host: float) -> Any:
    """Makes the steady figure differ by a factor."""

    def edit(line: dict[str, Any]) -> dict[str, Any]:
        times = line["times"]
        times["steady_payload_bytes"] = int(times["steady_payload_bytes"] * share)
        if host:
            line["resources"]["client"]["host"] |= {f"{kind}_share": share for kind, share in host.items()}
        return line

    return edit


def standing(line: dict[str, Any]) -> dict[str, Any]:
    """A batch that takes all of the trial."""
    line["latency"]["service"]["max"] = line["times"]["interval_ns"]
    return line


def test_warnings_by_cause(tmp_path: Path) -> None:
    def found(matrix: dict[str, Any] | None = None, **options: Any) -> list[str]:
        run = make_run(tmp_path / "run", cells(("get",), (1,), **matrix or {}), repeats=6, **options)
        kinds = [advice.kind for advice in load(run).advice]
        shutil.rmtree(run)
        return kinds

    assert found() == found(edit=edited(1.03)) == []
    assert found(edit=edited(1.06)) == ["steady"]
    assert found(edit=edited(1.0, steal=0.02, busy=0.2)) == ["steal"]
    assert found(edit=edited(1.0, steal=0.0, busy=0.3)) == ["load"]
    # The gravest first, and none hides another.
    assert found(edit=edited(1.0, steal=0.01001, busy=0.6)) == ["load", "steal"]
    assert found(edit=edited(1.0, steal=0.4, busy=0.3)) == ["steal", "load"]
    assert found(edit=edited(1.0, steal=0.0, busy=0.001)) == ["balance"]
    assert found(edit=standing) == ["stalled"]
    assert found(ceilings=False) == ["no-ceiling"]
    assert found({"verify": "none"}) == ["unverified"]
    assert found({"rows": (1_000_000,)}) == ["short"]


def test_every_warning_has_number_cause_and_next(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", repeats=2, fail="streams == 4", ceilings=False, edit=edited(1.2))
    for advice in load(run).advice:
        assert any(c.isdigit() for c in advice.finding)
        assert advice.cause and advice.next and not advice.next.endswith(".")


# The command line itself, as a user meets it.


def test_command_line(tmp_path: Path) -> None:
    run = make_run(tmp_path / "venturi-runs" / "r", cells(("get",), (1, 2)), repeats=2)
    done = venturi("show", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("get: best ")
    done = venturi("report", "last", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "venturi-runs/r/report.html\n", "")
    assert (run / "report.html").exists()
    done = venturi("show", "venturi-runs/r", "--format", "json", cwd=tmp_path)
    assert [c["streams"] for c in json.loads(done.stdout)["cells"]] == [1, 2]


@pytest.mark.parametrize(
    ("remedy", "found"),
    [
        (Remedy("more-repeats", "more repeats"), []),
        (Remedy("path-limit", "measure", command="venturi run quick"), ["venturi run quick"]),
        (
            Remedy("server-elsewhere", "there", before="venturi serve flight", command="venturi run '<x>'"),
            ["venturi serve flight", "venturi run '<x>'"],
        ),
        # A command that is only named, as `venturi doctor` is here, is none to type.
        (Remedy("stop-others", "see venturi doctor", command="venturi run x"), ["venturi run x"]),
    ],
)
def test_commands_of_remedies_are_set_as_code(remedy: Remedy, found: list[str]) -> None:
    shown = replace(remedy, begin="<b>")
    page = in_parts(shown.parts)
    assert [unescape(code) for code in re.findall("<code>(.*?)</code>", page)] == found
    assert unescape(re.sub("</?code>", "", page)) == shown.text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("in `venturi report --format csv`", ["venturi report --format csv"]),
        ("see `venturi doctor`, then: `venturi run x`", ["venturi doctor", "venturi run x"]),
        ("what venturi does: venturi run x", []),
        ("<b>: `venturi run '<x>'`", ["venturi run '<x>'"]),
    ],
)
def test_what_stands_between_backticks_is_set_as_code(text: str, found: list[str]) -> None:
    page = commands(text)
    assert [unescape(code) for code in re.findall("<code>(.*?)</code>", page)] == found
    assert "`" not in page and "<b>" not in page and "<x>" not in page


def test_a_limit_far_above_is_named_and_not_drawn(tmp_path: Path) -> None:
    def slow(line: dict[str, Any]) -> dict[str, Any]:
        line["times"]["interval_ns"] *= 100
        return line

    near = figures.one(load(make_run(tmp_path / "near", cells(streams=(1, 2)))), "throughput-streams")
    assert any(s.name.startswith("raw TCP") for p in near.panels for s in p.series)
    assert "Dashed: raw TCP" in near.caption
    slowed = make_run(tmp_path / "far", cells(streams=(1, 2)), edit=slow)
    far = figures.one(load(slowed), "throughput-streams")
    assert not any(s.name.startswith("raw TCP") for p in far.panels for s in p.series)
    assert re.search(r"Raw TCP lies far above, at [\d,]+ to [\d,]+ MB/s\.", far.caption)
    assert "Dashed" not in far.caption


def test_a_limit_far_above_has_its_own_name() -> None:
    panel = Panel("get", series=[Series("a", [1.0], [1.0], "$a")])
    panel.series.append(Series("raw Unix socket", [1.0], [5000.0], "$b", dash="dash"))
    assert curves._drop_high_limits([panel]) == ["Raw Unix socket lies far above, at 5,000 MB/s."]
    assert len(panel.series) == 1
