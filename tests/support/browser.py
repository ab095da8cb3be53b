"""A headless Chromium that tests drive: pages opened, code evaluated in them, pictures taken.

Over the debugging pipe (messages of JSON ended by a zero byte on descriptors 3 and 4), so that no port is
open and no package needed. Time is real, not virtual: what scrolls and is drawn lazily needs frames.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from support.wait import wait_until

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
    "--hide-scrollbars",
]
PATIENCE = 90.0
"""Seconds for one answer; a busy machine is slow, a browser that hangs is killed."""


class Browser:
    """One page; use as a context manager. `console` holds what it said: errors, warnings and exceptions."""

    def __init__(self, profile: Path, width: int = 1280, height: int = 900) -> None:
        if CHROMIUM is None:
            # Tests are skipped without it. Imported here: benches and tools have no pytest, and ask before.
            from support.needs import require

            require(CHROMIUM, "Chromium")
        assert CHROMIUM is not None
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        line = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        line += ["--remote-debugging-pipe", "about:blank"]

        def place() -> None:
            # Copies first: either may stand where the other one has to go.
            one, other = os.dup(to_browser), os.dup(from_browser)
            os.dup2(one, 3)
            os.dup2(other, 4)

        self._process = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=place, close_fds=False, start_new_session=True,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self._scripts = True
        self.console: list[str] = []
        try:
            found = self._targets()
            page = next(t["targetId"] for t in found if t["type"] == "page")
            self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close(patience=0.0)
            raise

    def _targets(self) -> list[dict[str, Any]]:
        """The browser's pages; a busy machine answers before there is one."""

        def pages() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = self.call("Target.getTargets")["targetInfos"]
            return found if any(target["type"] == "page" for target in found) else []

        return wait_until(pages, lambda: "the browser opens no page")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self, patience: float = 10.0) -> None:
        """Ends the browser and what it started: asked first, so that its profile is whole and can be removed
        by the caller; killed where it does not listen."""
        if self._process.returncode is None:
            with suppress(OSError):
                os.write(self._out, b'{"id":0,"method":"Browser.close"}\0')
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
            # Its own session, so these are its children and no others, also where it is gone itself.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for end in (self._out, self._in):
            with suppress(OSError):
                os.close(end)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the debugging protocol and its answer. Raises AssertionError for an error."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        rest = json.dumps(message).encode() + b"\0"
        while rest:
            # A pipe takes 64 kB: what a hanging browser does not read must not hang the test.
            _, ready, _ = select.select([], [self._out], [], PATIENCE)
            assert ready, "the browser does not listen"
            rest = rest[os.write(self._out, rest[:4096]) :]
        end = time.monotonic() + PATIENCE
        while True:
            answer = self._message(end)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self._noted(answer)

    def _message(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser went away"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _noted(self, event: dict[str, Any]) -> None:
        """Events that come between answers; what a page says in anger is kept."""
        found = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.console.append(str(found["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded":
            self.console.append(str(found["entry"].get("text")))
        elif event.get("method") == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(a.get("value")) for a in found["args"]))

    def open(self, page: Path, fragment: str = "") -> None:
        """Goes to a file and waits until it is loaded, and where it is a report, unpacked; a new page, also
        where only the fragment differs."""
        self.call("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'")
        self.console.clear()
        self.call("Page.navigate", url=page.as_uri() + fragment)
        self.wait("location.protocol === 'file:' && document.readyState === 'complete'")
        if self._scripts:
            self.wait("!document.getElementById('packed')")

    def run(self, code: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until an expression in the page is true."""
        wait_until(lambda: self._holds(condition), lambda: f"still not so: {condition}")

    def _holds(self, condition: str) -> bool:
        """False also where the page that was asked has just gone."""
        asked = f"(() => {{ try {{ return Boolean({condition}); }} catch (error) {{ return false; }} }})()"
        return self.run(asked) is True

    def dark(self, dark: bool) -> None:
        """The colours that the reader's system asks for."""
        wanted = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[wanted])

    def scripts(self, allowed: bool) -> None:
        """Whether pages opened from now on may run theirs."""
        self._scripts = allowed
        self.call("Emulation.setScriptExecutionDisabled", value=not allowed)

    def size(self, width: int, height: int) -> None:
        """Another window; below 500 pixels only this makes one as narrow as a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


VIEWS = {"day": (1280, 900, False), "night": (1280, 900, True), "phone": (390, 844, False)}
_CHECK = """
axe.run({resultTypes: ["violations"]}).then((found) => found.violations
  .filter((it) => ["serious", "critical"].includes(it.impact))
  .map((it) => `${it.id}: ${it.help}; ${it.nodes.length} times, as ${it.nodes[0].html.slice(0, 150)}`))
"""


def violations(browser: Browser, page: Path, view: str) -> list[str]:
    """What axe finds in a page that keeps somebody from reading it: by day, by night, on a phone. The serious
    ones."""
    from support.needs import require

    require(find_spec("axe_core_python"), "axe_core_python")
    width, height, dark = VIEWS[view]
    browser.size(width, height)
    browser.dark(dark)
    browser.open(page)
    browser.run(resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found: list[str] = browser.run(_CHECK)
    return found
