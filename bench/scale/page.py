"""How a report's page opens and scrolls in Chromium, headless and without a graphics card."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# The browser that the tests drive; it needs no package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from support.browser import CHROMIUM, Browser

FRAME_MS, LATE_MS = 1000 / 60, 50.0
STEP = 60
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]"
SCROLL = """new Promise((done) => {{
  const box = {box};
  const frames = [];
  let last = 0, top = 0;
  const step = (now) => {{
    if (last) frames.push(now - last);
    last = now;
    top += {step};
    box.scrollTo(0, top);
    if (top < box.scrollHeight - box.clientHeight && frames.length < 3000) requestAnimationFrame(step);
    else done(frames);
  }};
  requestAnimationFrame(step);
}})"""


@dataclass(frozen=True)
class Scroll:
    """How one thing scrolled: times between frames (ms), and the thread's CPU time a frame (ms)."""

    name: str
    frames: list[float]
    cpu_ms: float


@dataclass(frozen=True)
class Opened:
    """How a page opened, and how it scrolled then."""

    first_paint: float
    """Seconds from its navigation to the first content that is painted, as the browser tells it."""
    unpacked: float
    """Seconds until its scripts run."""
    scrolled: list[Scroll]
    elements: int
    browser: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def opened(page: Path, work: Path) -> Opened | None:
    """None without a browser."""
    if CHROMIUM is None:
        return None
    with Browser(work / "profile") as browser:

        def figures() -> dict[str, float]:
            return {m["name"]: m["value"] for m in browser.call("Performance.getMetrics")["metrics"]}

        browser.call("Performance.enable", timeDomain="threadTicks")
        began = time.monotonic()
        browser.open(page)
        unpacked = time.monotonic() - began
        browser.wait(PAINTED)
        first_paint = browser.run(f"{PAINTED}.startTime") / 1e3
        time.sleep(1.0)
        boxes = "[...document.querySelectorAll('.cells .tablebox')]"
        table = f"{boxes}.sort((a, b) => b.scrollHeight - a.scrollHeight)[0]"
        found = []
        for name, box in (("page", "document.documentElement"), ("longest table", table)):
            browser.run(f"{table}.scrollIntoView()" if name != "page" else "scrollTo(0, 0)")
            before = figures()["ThreadTime"]
            frames = browser.run(SCROLL.format(box=box, step=STEP))
            spent = figures()["ThreadTime"] - before
            if frames:
                found.append(Scroll(name, frames, 1e3 * spent / len(frames)))
        elements = browser.run("document.getElementsByTagName('*').length")
        said = browser.call("Browser.getVersion")["product"]
        if browser.console:
            raise RuntimeError(f"the page complained: {browser.console[0]}")
    return Opened(first_paint, unpacked, found, elements, said)
