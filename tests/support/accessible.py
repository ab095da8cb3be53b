"""What axe finds in a page that keeps somebody from reading it: by day, by night, on a phone."""

from __future__ import annotations

from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from support.browser import Browser
from support.needs import require

VIEWS = {"day": (1280, 900, False), "night": (1280, 900, True), "phone": (390, 844, False)}
_CHECK = """
axe.run({resultTypes: ["violations"]}).then((found) => found.violations
  .filter((it) => ["serious", "critical"].includes(it.impact))
  .map((it) => `${it.id}: ${it.help}; ${it.nodes.length} times, as ${it.nodes[0].html.slice(0, 150)}`))
"""


def violations(browser: Browser, page: Path, view: str) -> list[str]:
    """The serious ones."""
    require(find_spec("axe_core_python"), "axe_core_python")
    width, height, dark = VIEWS[view]
    browser.size(width, height)
    browser.dark(dark)
    browser.open(page)
    browser.run(resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found: list[str] = browser.run(_CHECK)
    return found
