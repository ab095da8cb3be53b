"""The page in a real browser: every figure drawn, tables that work, no errors, hostile names harmless."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from support.browser import VIEWS, Browser, violations
from support.hosts_records import placed, spread
from support.synthetic import HOSTILE, cells, hostile, make_run
from venturi.analysis.results import load
from venturi.report.figures import registry as figures
from venturi.report.figures.figure import DARK, LIGHT
from venturi.report.page import page as html_page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]
NARROW = 390
DRAWN = ".mark-line path, .mark-symbol path, .mark-rect path, .mark-area path"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with something of everything: sizes, streams, failures, samples, stages, limits."""
    place = tmp_path_factory.mktemp("report")
    matrix = cells(streams=(1, 2, 3, 4), rows=(5_000_000, 10_000_000))
    run = make_run(place / "run", matrix, repeats=3, fail="streams == 2")
    return html_page.write(run, place / "report.html", "macbook")


@pytest.fixture(scope="module")
def long_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More cells than the page holds rows of."""
    place = tmp_path_factory.mktemp("long")
    matrix = cells(operations=("get",), streams=(1, 2, 4), rows=range(1_000_000, 81_000_000, 1_000_000))
    run = make_run(place / "run", matrix, repeats=1, warmup=0, samples=False)
    return html_page.write(run, place / "report.html")


def quiet(browser: Browser) -> None:
    """Two frames, so that nothing is on its way any more, then: the console is empty."""
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert browser.console == []


def drawn(browser: Browser, plot: str) -> None:
    """Scrolls to a plot, and waits until it is there."""
    browser.run(f"{plot}.scrollIntoView()")
    browser.wait(f"{plot}.querySelector('svg.marks')")


def scrolled(browser: Browser, beyond: int = 0) -> None:
    """From top to bottom, and nothing is said in anger."""
    height = browser.run("document.documentElement.scrollHeight")
    for top in range(0, height + beyond, 700):
        browser.run(f"scrollTo(0, {top})")
        quiet(browser)


def test_every_figure_is_drawn_when_it_comes_into_sight(browser: Browser, report: Path) -> None:
    browser.open(report)
    expected = figures.build(load(report.parent / "run"), "macbook", without=html_page.IN_VIEW)
    assert {f.name for f in expected} >= {"throughput-size", "box-size", "stages", "latency", "roofline"}
    last = f"document.querySelector('#figure-{expected[-1].name} .plot')"
    assert browser.run(f"{last}.querySelectorAll('svg.marks').length") == 0, "drawn before it is seen"
    for figure in expected:
        panels = f"[...document.querySelectorAll('#figure-{figure.name} .plot')]"
        assert browser.run(f"{panels}.length") == len(figure.panels), figure.name
        for i in range(len(figure.panels)):
            drawn(browser, f"{panels}[{i}]")
        marks = browser.run(f"{panels}.every((plot) => plot.querySelector('{DRAWN}'))")
        assert marks is True, figure.name
    assert browser.run("document.documentElement.dataset.drawn") == "true"
    for section in ("reason", "summary", "cell", "figures", "ceilings", "failed", "warnings", "environment"):
        assert browser.run(f"Boolean(document.querySelector('section#{section} > h2'))"), section
    quiet(browser)


def test_the_view_of_a_cell_follows_menu_address_and_figure(browser: Browser, report: Path) -> None:
    found = load(report.parent / "run").cells
    name = next(c.name for c in found if c.parameters["streams"] == 4)
    browser.open(report, f"#cell={name}")
    view = "document.getElementById('cell-view')"
    assert browser.run(f"{view}.querySelector('.which + p').textContent") == name
    assert browser.run(f"{view}.querySelectorAll('svg.pipeline rect').length") > 4
    browser.run(f"{view}.querySelector('.plot').scrollIntoView()")
    browser.wait(f"{view}.querySelector('.plot svg.marks path')")
    # A pointer over any panel reads all of them at that moment.
    where = "const { left, right, top } = plot.getBoundingClientRect()"
    event = (
        "new PointerEvent('pointermove', { clientX: (left + right) / 2, clientY: top + 60, bubbles: true })"
    )
    browser.run(
        f"(() => {{ const plot = {view}.querySelector('.plot'); {where}; plot.dispatchEvent({event}); }})()"
    )
    shown = browser.run("document.querySelector('.tip').innerText")
    assert "throughput, MB/s: payload" in shown and "memory of the process, MB: client" in shown
    browser.run("document.getElementById('cell-after').click()")
    after = browser.run(f"{view}.querySelector('.which + p').textContent")
    assert after in {c.name for c in found} - {name}
    # The address has followed, and what named the first cell before brings it back.
    assert browser.run("decodeURIComponent(location.hash)") == f"#cell={after}"
    browser.run(f"location.hash = 'cell={name}'")
    browser.wait(f"{view}.querySelector('.which + p').textContent === '{name}'")
    assert browser.run("document.querySelectorAll('tr.chosen').length") == 1
    # A row of the cell that is shown already leads to it all the same.
    browser.run("scrollTo(0, 0)")
    browser.run("document.querySelector('tr.chosen').click()")
    browser.wait("document.getElementById('cell').getBoundingClientRect().top < 100")
    quiet(browser)


def test_colours_follow_the_button_and_a_legend_hides_its_lines(browser: Browser, report: Path) -> None:
    browser.open(report)
    plot = "document.querySelector('#figure-latency .plot')"
    drawn(browser, plot)
    drawn(browser, "document.querySelector('#cell-view .plot')")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = browser.run(ground)
    inked = f"getComputedStyle({plot}.querySelector('.role-axis-label text')).fill"
    ink = browser.run(inked)
    browser.run("document.getElementById('theme').click()")
    assert browser.run(ground) != light
    assert browser.run(inked) != ink
    assert browser.run("Boolean(document.querySelector('#cell-view .plot svg.marks'))") is True
    assert browser.run("document.getElementById('theme').textContent") == "Light"
    lines = f"{plot}.querySelectorAll('.mark-line path').length"
    before = browser.run(lines)
    button = "document.querySelector('#figure-latency .legend button')"
    browser.run(f"{button}.click()")
    assert browser.run(f"{button}.getAttribute('aria-pressed')") == "false"
    assert browser.run(lines) < before
    browser.run(f"{button}.click()")
    assert browser.run(lines) == before
    quiet(browser)


def test_it_prints_every_figure_and_comes_back(browser: Browser, report: Path) -> None:
    browser.open(report)
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    paper = base64.b64decode(browser.call("Page.printToPDF")["data"])
    assert paper.startswith(b"%PDF")
    drawn = "[...document.querySelectorAll('.plot[data-figure]')].every((p) => p.querySelector('svg.marks'))"
    assert browser.run(drawn) is True
    assert browser.run("document.body.classList.contains('printing')") is False
    assert browser.run("getComputedStyle(document.body).backgroundColor") == ground
    quiet(browser)


def test_a_table_sorts_filters_and_opens_cells(browser: Browser, report: Path) -> None:
    browser.open(report)
    table = "document.querySelector('.cells[data-table=\"0\"]')"
    column = f"[...{table}.querySelectorAll('thead th')].findIndex((h) => h.textContent.startsWith('median'))"
    texts = f"[...{table}.querySelectorAll('tbody tr')].map((r) => r.cells[{column}].textContent)"
    head = f"{table}.querySelectorAll('thead th')[{column}]"

    def speeds() -> list[float]:
        return [float(t.replace(",", "")) for t in browser.run(texts) if t != "–"]

    browser.run(f"{head}.querySelector('button').click()")
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "descending"
    fastest = speeds()
    assert len(fastest) > 3 and fastest == sorted(fastest, reverse=True)
    browser.run(f"{head}.querySelector('button').click()")
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "ascending"
    assert speeds() == fastest[::-1]
    assert browser.run(texts)[-1] == "–", "what was not measured is last, either way"

    browser.run(
        f"(() => {{ const box = {table}.querySelector('input'); box.value = 'streams=4'; "
        "box.dispatchEvent(new Event('input')); })()"
    )
    assert browser.run(f"{table}.querySelectorAll('tbody tr').length") == 2
    assert browser.run(f"{table}.querySelector('.tools .quiet').textContent") == "2 of 8 cells"
    browser.run(f"{table}.querySelector('tbody tr').click()")
    browser.wait("location.hash.startsWith('#cell=')")
    shown = "document.querySelector('#cell-view .which + p').textContent"
    browser.wait(f"'#cell=' + {shown} === decodeURIComponent(location.hash)")
    quiet(browser)


def test_a_long_table_keeps_only_the_rows_in_sight(browser: Browser, long_report: Path) -> None:
    browser.open(long_report)
    scroller = "document.querySelector('.cells[data-table=\"0\"] .tablebox')"
    browser.run(f"{scroller}.scrollIntoView()")
    rows = f"{scroller}.querySelectorAll('tr[data-cell]')"
    assert 10 < browser.run(f"{rows}.length") < 100
    assert browser.run(f"{scroller}.previousElementSibling.textContent").endswith("240 cells")
    first = browser.run(f"{rows}[0].textContent")
    browser.run(f"{scroller}.scrollTop = {scroller}.scrollHeight")
    browser.wait(f"{rows}[0].textContent !== {first!r}")
    assert browser.run(f"{rows}.length") < 100
    last = browser.run(f"Number({rows}[{rows}.length - 1].dataset.cell)")
    assert last == 239
    # The last row stands at the end: what is left out above has its height.
    ends = [f"{x}.getBoundingClientRect().bottom" for x in (scroller, f"{rows}[{rows}.length - 1]")]
    assert -2 <= browser.run(" - ".join(ends)) <= 24
    quiet(browser)


def test_hostile_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", cells(streams=(1, 2)), repeats=2, edit=hostile)
    page = html_page.write(run, tmp_path / "report.html")
    browser.open(page)
    # A dialog would stand still: the next call would not be answered.
    scrolled(browser)
    browser.run("document.getElementById('cell-after').click()")
    assert browser.run("document.querySelectorAll('img, iframe, object, [onerror]').length") == 0
    own = "document.querySelectorAll('script').length"
    assert browser.run(own) == 8, "two of data, Vega, the page's own five"
    assert "<script>alert('x')</script><img src=x onerror=alert(1)>" in HOSTILE
    assert browser.run("document.body.innerText.includes(\"<script>alert('x')</script><img src=x\")") is True
    quiet(browser)


def test_a_narrow_window_in_dark_colours(browser: Browser, report: Path) -> None:
    browser.size(NARROW, 844)
    browser.dark(True)
    browser.open(report)
    scrolled(browser, beyond=4000)
    browser.wait("[...document.querySelectorAll('.plot[data-figure]')].every((p) => p.querySelector('svg'))")
    assert browser.run("document.documentElement.scrollWidth") <= NARROW
    assert browser.run("innerWidth") == NARROW
    # Not only hidden: no figure is wider than its box.
    edges = "[...document.querySelectorAll('.plot svg.marks')].map((s) => s.getBoundingClientRect().right)"
    assert max(browser.run(edges)) <= NARROW
    assert browser.run("document.getElementById('theme').textContent") == "Light"
    # Colours that only the dark palette has are on the lines and on the words.
    strokes = "[...document.querySelectorAll('.plot .mark-line path')].map((p) => getComputedStyle(p).stroke)"
    assert rgb(DARK["c0"]) in browser.run(strokes)
    assert rgb(LIGHT["c0"]) not in browser.run(strokes)
    assert browser.run("getComputedStyle(document.body).color") == rgb(DARK["ink"])


def test_hosts_and_who_sent_what_at_every_width(browser: Browser, tmp_path: Path) -> None:
    loaders = [{**p, "loaders": n} for n in (2, 4) for p in cells(("get",), (8,))]
    run = make_run(tmp_path / "run", placed(loaders), repeats=2, warmup=0, edit=spread(4, 3))
    path = html_page.write(run, tmp_path / "report.html")
    for width, dark in ((1280, False), (NARROW, True)):
        browser.size(width, 900)
        browser.dark(dark)
        browser.open(path, "#hosts")
        quiet(browser)
        assert browser.run("document.documentElement.scrollWidth") <= width
        # A part for each loader, in the colours of the theme.
        bars = "document.querySelector('#figure-flows .plot')"
        drawn(browser, bars)
        theme = DARK if dark else LIGHT
        fills = f"[...{bars}.querySelectorAll('.mark-rect path')].map((p) => getComputedStyle(p).fill)"
        assert {rgb(theme[f"c{i}"]) for i in range(2)} <= set(browser.run(fills))
        # The view of a cell has its loaders.
        rows = "document.querySelectorAll('#cell-view .tablebox tbody tr').length"
        assert browser.run(rows) in (2, 4)


def test_without_scripts_it_still_says_what_was_found(browser: Browser, report: Path) -> None:
    browser.scripts(False)
    browser.open(report)
    words = browser.run("document.body.innerText")
    assert "Figures, and the rows of long tables, need JavaScript." in words
    assert browser.run("document.querySelectorAll('.cells tbody tr').length") == 16


def rgb(colour: str) -> str:
    """As the browser writes a colour of the palette."""
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


@pytest.mark.parametrize("view", VIEWS)
def test_everybody_can_read_it(browser: Browser, report: Path, view: str) -> None:
    assert violations(browser, report, view) == []
