"""The page in a real browser: no console errors, every figure drawn, hostile names harmless."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import require
from synthetic import cells, hostile, make_run
from venturi.analysis.results import load
from venturi.report import figures, html

pytestmark = pytest.mark.browser
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--enable-logging=stderr",
    "--virtual-time-budget=10000",
]


def visit(page: Path, profile: Path, *flags: str) -> tuple[str, list[str]]:
    """The page's document after its scripts ran, and what it said on the console."""
    require(CHROMIUM, "Chromium")
    assert CHROMIUM is not None
    line = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *flags, "--dump-dom", page.as_uri()]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, [text for text in done.stderr.splitlines() if ":CONSOLE" in text]


def body_of(document: str) -> str:
    """Without the scripts, which hold every word."""
    return re.sub(r"<script.*?</script>", "", document, flags=re.DOTALL)


def test_every_figure_is_drawn_without_errors(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run", cells(streams=(1, 2), rows=(5_000_000, 10_000_000)), repeats=3, fail="streams == 2"
    )
    page = html.write(run, tmp_path / "report.html", "macbook")
    document, console = visit(page, tmp_path / "profile", "--window-size=1280,2000")
    assert console == []
    assert 'data-drawn="true"' in document
    body = body_of(document)
    drawn = figures.build(load(run), "macbook")
    assert {f.name for f in drawn} >= {"throughput-size", "box-size", "throughput-time", "stages", "latency"}
    for figure in drawn:
        part = body.split(f'id="figure-{figure.name}"')[1].split("</figure>")[0]
        assert part.count('class="main-svg"') >= len(figure.panels)
        assert re.search(r'class="(trace|point|boxes|js-line|box)', part), figure.name
    for section in (
        "summary",
        "figures",
        "failed",
        "warnings",
        "environment",
        "scenario",
        "method",
        "reproduce",
    ):
        assert f'<section id="{section}">' in body


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", cells(streams=(1, 2)), repeats=2, edit=hostile)
    page = html.write(run, tmp_path / "report.html")
    document, console = visit(page, tmp_path / "profile")
    assert console == []
    body = body_of(document)
    assert "<img" not in body
    assert "&lt;script&gt;alert" in body


def test_figures_fit_a_narrow_window_and_dark_colours(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", cells(streams=(1, 2)), repeats=2)
    html.write(run, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    (tmp_path / "dark.html").write_text(
        text.replace('<html lang="en">', '<html lang="en" data-theme="dark">'), encoding="utf-8"
    )
    # A headless window has a least width; a frame has not.
    page = tmp_path / "frame.html"
    page.write_text(
        '<body><iframe id="f" src="dark.html" style="width:390px;height:3000px;border:0"></iframe><script>'
        "addEventListener('load', () => setTimeout(() => {"
        "document.title = 'w' + document.getElementById('f').contentDocument.documentElement.scrollWidth;"
        "}, 3000))</script>"
    )
    document, console = visit(page, tmp_path / "profile", "--allow-file-access-from-files")
    assert console == []
    width = re.search(r"<title>w(\d+)</title>", document)
    assert width is not None and int(width.group(1)) <= 390
    dark, _ = visit(tmp_path / "dark.html", tmp_path / "profile2")
    assert "rgb(99, 171, 238)" in dark  # c0 of the dark palette, in the traces' styles
