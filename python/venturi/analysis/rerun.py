"""A run to be repeated with one thing changed, as a command that can be typed.

As it was typed; or, where nobody typed it (the Python API, an imported result), made from the cell's own
parameters.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from venturi.analysis.cells import Cell

# Of a run as it was typed: what a repeat shall not inherit.
_DROPPED = {
    "--out": 1,
    "--resume": 1,
    "--retry-failed": 0,
    "--dry-run": 0,
    "--json": 0,
    "--quiet": 0,
    "-q": 0,
}
CREDENTIALS = (
    *("tls_ca", "tls_certificate", "tls_key", "tls_server_name", "tls_insecure"),
    *("token_env", "user", "password_env", "header", "header_env"),
)
"""Parameters by which a server is trusted and logged in to."""
# Of those that a repeat leaves out: they stand without a value.
_SWITCHES = ("--tls-insecure",)
_REPEATABLE = ("--header", "--header-env", "--set", "--data", "--place")
# Parameters that a command made from a cell has to name, with the value that needs no naming.
_NAMED: dict[str, Any] = {
    "operation": None,
    "columns": 4,
    "values": "random",
    "rows_per_batch": None,
    "streams": None,
    "threads": None,
    "rate": None,
    "compression": None,
    "connections": "per-stream",
    "window": None,
    "verify": "checksum",
    "ack": "stream",
    "handicap": None,
    "in_flight": 1,
    "generate": "ahead",
    "working_set": None,
    "key": None,
    "add": None,
    "table": None,
    "statement": None,
    "method": None,
    "write": None,
    "batch": None,
    "consistency": None,
    "synchronous": None,
    "journal": None,
    "storage": None,
    "partition_key": None,
    "hosts": None,
    "messages": None,
    "digits": "17",
    "durable": None,
    "pool": None,
    "encoders": None,
    "decoders": 1,
    "query": None,
    "wire_version": "1.2",
    "wire_format": None,
    "split": None,
    "split_by": None,
    "server_settings": None,
}


@dataclass(frozen=True)
class Rerun:
    """A run to be repeated with a change."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, cell: Cell, environment: Mapping[str, Any]) -> Rerun:
        """From what was typed; from the parameters where nothing was, or where it only went on with a run."""
        typed = environment.get("command")
        words = [str(w) for w in typed] if isinstance(typed, list | tuple) else []
        if words[:2] != ["venturi", "run"] or any(w.partition("=")[0] == "--resume" for w in words):
            return cls(_spelled(cell))
        kept, skip = ["venturi", "run"], 0
        for word in words[2:]:
            name, equals, _ = word.partition("=")
            if skip:
                skip -= 1
            elif name in _DROPPED:
                skip = 0 if equals else _DROPPED[name]
            else:
                kept.append(word)
        return cls(_last_of_each(kept))

    def but(self, **changes: Any) -> str:
        """The command with these parameters; what it said of them before is left out."""
        flags = {"--" + name.replace("_", "-"): value for name, value in changes.items()}
        kept: list[str] = []
        skip = False
        for word in self.words:
            name, equals, _ = word.partition("=")
            if skip:
                skip = False
            elif name in flags:
                skip = not equals and name not in _SWITCHES
            else:
                kept.append(word)
        for flag, value in flags.items():
            kept += [flag, str(value)] if value is not None else []
        return shlex.join(kept)


def _last_of_each(words: Sequence[str]) -> tuple[str, ...]:
    """Without what a later word overrides: of a flag given twice the last one counts."""
    kept: list[str] = []
    for at, word in enumerate(words):
        name = word.partition("=")[0]
        before = words[at - 1] if at else ""
        owner = (
            before if before.startswith("--") and "=" not in before and not word.startswith("--") else name
        )
        later = words[at + 1 :]
        again = any(w.partition("=")[0] == owner for w in later)
        if not (owner.startswith("--") and owner not in _REPEATABLE and again):
            kept.append(word)
    return tuple(kept)


def _spelled(cell: Cell) -> tuple[str, ...]:
    p = cell.parameters
    words = ["venturi", "run", "--target", str(p.get("target") or "flight://local")]
    if p.get("data") not in (None, "records", "remote"):
        words += ["--data", str(p["data"])]
    for name, usual in _NAMED.items():
        value = p.get(name)
        if value is None or value == usual or (name == "threads" and value == p.get("streams")):
            continue
        words += ["--" + name.replace("_", "-"), _text(value)]
    if p.get("duration_ns"):
        words += ["--duration", f"{p['duration_ns'] / 1e9:g}s"]
    elif p.get("rows_per_stream"):
        words += ["--rows-per-stream", str(int(p["rows_per_stream"]))]
    return tuple(words)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
