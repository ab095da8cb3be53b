"""The site that `make docs` makes, read from the disk: it is whole, can be searched, and needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from browser import Browser
from run_support import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_the_site_is_searched_from_the_disk(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    page = tmp_path / "site" / "index.html"
    assert not re.search(r'(src|stylesheet" href)="(https?:)?//', page.read_text())
    with Browser(tmp_path / "profile") as browser:
        browser.open(page, "?q=acknowledgements")
        browser.wait("/[1-9][0-9]* matching document/.test(document.body.textContent)")
