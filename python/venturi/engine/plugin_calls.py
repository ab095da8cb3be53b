"""Calls into a target in Python, as the core makes them: what crosses is checked, what is raised becomes a
line.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from operator import index
from typing import Any, TypeVar

from venturi.common.credentials import filled, masked
from venturi.targets.plugin import Trial
from venturi.targets.plugins import Plugin, place_of_error
from venturi.targets.system import PLUGINS, scheme_of

TRACEBACKS = "VENTURI_PLUGIN_TRACEBACKS"
"""The environment variable that has whole tracebacks written to standard error, where it is "on"."""
_LONGEST = 2000
_MOST = {"rows": 2**64 - 1, "pid": 2**32 - 1}
"""What a plan's answer may tell in numbers, and how large they are at most."""
_PYARROW = re.compile(r'\. Detail: Python exception: .*File "([^"]+)", line (\d+)', re.DOTALL)
"""How pyarrow tells of a stream whose batches Python makes: with the whole traceback."""

T = TypeVar("T")


class _PluginError(Exception):
    """Says all that there is to say."""


def of(spec: str) -> Calls | None:
    """Those of the trial's target; None if it is one of Venturi's own."""
    if not PLUGINS:
        return None
    options = json.loads(spec)
    plugin = PLUGINS.get(scheme_of(options["target"]))
    return None if plugin is None else Calls(plugin, options)


def run_trial(core: Any, spec: str, control: Any) -> Any:
    """As the core's, of a target in Python too."""
    calls = of(spec)
    return core.run_trial(spec, control, *([calls] if calls is not None else []))


class Calls:
    """One trial's. Each stream's calls come from a thread of its own."""

    def __init__(self, plugin: Plugin, spec: Mapping[str, Any]) -> None:
        self._plugin = plugin
        self._spec = spec
        self._planned: Any = None

    def plan(self, rows: Any) -> str:
        """Begins the trial. JSON: what is known before."""
        spec, plugin = self._spec, self._plugin
        options = spec.get("options") or {}
        parameters = {it.name: options.get(plugin.key(it)) for it in plugin.parameters}
        parameters = {name: filled(it) if isinstance(it, str) else it for name, it in parameters.items()}
        usual = {it.name: it.default for it in plugin.parameters}
        trial = Trial(
            url=spec["target"],
            operation=spec["operation"],
            streams=spec["streams"],
            threads=spec["threads"],
            rows_per_batch=spec["rows_per_batch"],
            rows_per_stream=spec.get("rows_per_stream"),
            timeout=spec["timeout_ns"] / 1e9,
            parameters={n: usual[n] if value is None else value for n, value in parameters.items()},
            rows=rows,
        )
        self._planned = self._called("plan", lambda: plugin.target.plan(trial))
        method = "produce" if trial.operation == "get" else "consume"
        if not callable(getattr(self._planned, method, None)):
            raise self._wrong("plan", f"its answer has no {method}(stream)")
        numbers = {name: getattr(self._planned, name, None) for name in _MOST}
        for name, value in numbers.items():
            if value is not None and (type(value) is not int or not 0 <= value <= _MOST[name]):
                text = f"its answer's {name} is {value!r:.100}, which is no number from 0 to {_MOST[name]}"
                raise self._wrong("plan", text)
        address = getattr(self._planned, "address", None)
        if address is not None and not isinstance(address, str):
            raise self._wrong("plan", f"its answer's address is {address!r}, which is no text")
        software = f"{plugin.target.name} ({plugin.package})"
        return json.dumps({"software": software, "address": address, **numbers})

    def produce(self, stream: int) -> Any:
        """A capsule with the Arrow stream of one stream."""
        made = self._called("produce", lambda: self._planned.produce(stream))
        export = getattr(made, "__arrow_c_stream__", None)
        if export is None:
            raise self._wrong(
                "produce",
                f"answered {_kind(made)}, which is no Arrow stream: it has no __arrow_c_stream__; "
                "pyarrow.RecordBatchReader.from_batches(schema, batches) has one",
            )
        return self._called("produce", export)

    def consume(self, stream: int) -> _Sink:
        made = self._called("consume", lambda: self._planned.consume(stream))
        for method in ("write", "finish"):
            if not callable(getattr(made, method, None)):
                raise self._wrong("consume", f"answered {_kind(made)}, which has no {method}")
        return _Sink(self, made)

    def close(self) -> None:
        close = getattr(self._planned, "close", None)
        if callable(close):
            self._called("close", close)

    def describe_error(self, error: BaseException) -> str:
        """The line for what was raised, or for what an Arrow stream said."""
        if isinstance(error, _PluginError):
            return str(error)
        text = str(error)
        found = _PYARROW.search(text)
        if found:
            name = found[1].replace("\\", "/").rsplit("/", 1)[-1]
            _trace(text)
            text = f"{text[: found.start()]} ({name}, line {found[2]})"
        return self._text("the next batch", " ".join(text.split()))

    def _called(self, what: str, call: Callable[[], T]) -> T:
        """What the plugin's code answers. Raises _Told for what it raises."""
        try:
            return call()
        except BaseException as error:  # SystemExit of a plugin must not end the thread without a word
            raise self._raised(what, error) from None

    def _raised(self, what: str, error: BaseException) -> _PluginError:
        _trace("".join(traceback.format_exception(error)))
        at = place_of_error(error)
        details = " ".join(str(error).split())
        return _PluginError(
            self._text(what, f"{type(error).__name__}{details and f': {details}'}{at and f' ({at})'}")
        )

    def _wrong(self, what: str, text: str) -> _PluginError:
        return _PluginError(self._text(what, text))

    def _text(self, what: str, text: str) -> str:
        text = masked(text)
        cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        return f"{self._plugin.package}: {what}: {cut}"


class _Sink:
    """One stream of a put."""

    def __init__(self, calls: Calls, writer: Any) -> None:
        self._calls = calls
        self._write = writer.write
        self._finish = writer.finish

    def write(self, batch: Any) -> None:
        try:
            self._write(batch)
        except BaseException as error:
            raise self._calls._raised("write", error) from None

    def finish(self) -> tuple[int, int | None]:
        taken = self._calls._called("finish", self._finish)
        try:
            rows, digest = taken if isinstance(taken, tuple) else (taken, None)
            rows, digest = index(rows), None if digest is None else index(digest) % 2**64
        except (TypeError, ValueError):
            rows = -1
        if not 0 <= rows < 2**64:
            raise self._calls._wrong(
                "finish", f"answered {taken!r:.100}; it is the number of rows, or (rows, digest)"
            )
        return rows, digest


def _kind(found: object) -> str:
    return "None" if found is None else f"an object of {type(found).__module__}.{type(found).__qualname__}"


def _trace(text: str) -> None:
    if os.environ.get(TRACEBACKS) == "on":
        print(text, file=sys.stderr)
