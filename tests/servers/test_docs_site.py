"""The site that `make docs` makes, read from the disk: it is whole, can be searched, and needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.browser import VIEWS, Browser, violations
from support.needs import require
from support.run import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require(find_spec("mkdocs"), "mkdocs")
    at = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", at],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return at


def test_the_site_is_searched_from_the_disk(site: Path, browser: Browser) -> None:
    page = site / "index.html"
    assert not re.search(r'(src|stylesheet" href)="(https?:)?//', page.read_text())
    browser.open(page, "?q=acknowledgements")
    browser.wait("/[1-9][0-9]* matching document/.test(document.body.textContent)")


@pytest.mark.parametrize("view", VIEWS)
def test_everybody_can_read_it(site: Path, browser: Browser, view: str) -> None:
    for page in ("index", "tutorials/first-hour", "scenarios", "targets/flight"):
        assert violations(browser, site / f"{page}.html", view) == [], page
