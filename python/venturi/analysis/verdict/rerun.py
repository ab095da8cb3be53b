"""A run to be repeated with one thing changed, as a command that can be typed.

As it was typed; or, if nobody typed it (the Python API, an imported result), made from the cell's own
parameters.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from venturi.analysis.cells.summary import Cell
from venturi.analysis.verdict.types import Remedy
from venturi.common.suffixes import spell_duration, spell_time
from venturi.targets.parameters import PARAMETERS, SETTINGS
from venturi.targets.system import scheme_of, servers_batches

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
# Of those that a repeat leaves out: they stand without a value.
_SWITCHES = frozenset(it.flag for it in SETTINGS if it.kind == "bool")
_REPEATABLE = frozenset(it.flag for it in SETTINGS if it.form != "once")
# Lists whose flag takes one of them at a time.
_ONE_BY_ONE = frozenset(it.cell for it in SETTINGS if it.form == "repeated" and it.commas == "list")
# Parameters that follow from others, or that a command says in other words.
_IMPLIED = ("place", "target", "data", "on", "row_bytes")
_FLAGS = {it.cell: it.flag for it in SETTINGS if it.cell is not None}
_KEYS = {it.cell: it.key for it in SETTINGS if it.cell is not None}
_NAMES = {it.alias: it.flag for it in SETTINGS if it.alias is not None}
"""Flags by their other names."""
_ALWAYS = ("operation", "streams", "rows_per_batch")


@dataclass(frozen=True)
class Rerun:
    """A run to be repeated with a change."""

    words: tuple[str, ...]
    cell: Cell

    @classmethod
    def of(cls, cell: Cell, environment: Mapping[str, Any]) -> Rerun:
        """From what was typed; from the parameters if nothing was, or if it only went on with a run."""
        typed = environment.get("command")
        words = [str(w) for w in typed] if isinstance(typed, list | tuple) else []

        if words[:2] != ["venturi", "run"] or any(w.partition("=")[0] == "--resume" for w in words):
            return cls(_words(cell), cell)
        kept, skip = ["venturi", "run"], 0
        for word in words[2:]:
            name, equals, _ = word.partition("=")
            if skip:
                skip -= 1
            elif name in _DROPPED:
                skip = 0 if equals else _DROPPED[name]
            else:
                kept.append(word)
        return cls(_last_of_each(kept), cell)

    def but(self, **changes: Any) -> str:
        """The command with these parameters; what it said of them before is left out. None leaves it at
        that."""
        flags = {flag_of(name): value for name, value in changes.items()}
        return shlex.join(self._changed(self.words, flags))

    def proposed(self, remedy: Remedy) -> str | None:
        """The command with what a remedy changes; None if it changes nothing, or would be refused."""
        if not (remedy.changes or remedy.run or remedy.again):
            return remedy.command
        flags = dict.fromkeys(map(flag_of, remedy.left_out))
        flags |= {
            flag_of(name): "none" if value is None else spelled(name, value)
            for name, value in {**remedy.run, **remedy.changes}.items()
        }
        return shlex.join(self._changed(self.words, flags)) if self._takes(remedy) else None

    def _takes(self, remedy: Remedy) -> bool:
        """Whether the system has these settings, and may have them at these values."""
        url = str(remedy.changes.get("target", self.cell.parameters.get("target")))
        return all(
            value is None or _taken(name, url, self.cell.operation, spelled(name, one))
            for name, value in {**remedy.run, **remedy.changes}.items()
            for one in (value if isinstance(value, list) and name != "pin" else [value])
        )

    def _changed(self, words: Sequence[str], flags: Mapping[str, Any]) -> list[str]:
        kept: list[str] = []
        skip = False
        for word in words:
            name, equals, _ = word.partition("=")
            if skip:
                skip = False
            elif _NAMES.get(name, name) in flags:
                skip = not equals and name not in _SWITCHES
            else:
                kept.append(word)
        for flag, value in flags.items():
            kept += [_spoken(flag, self.cell.noun), str(value)] if value is not None else []
        return kept


@cache
def _taken(name: str, url: str, operation: str, value: str) -> bool:
    """Whether a setting means something to this system and operation, and takes this value."""
    # Read here, as they need pydantic: who reads no run does not need them.
    from venturi.plan.rules.options import applies
    from venturi.plan.validation import TABLES, validate_value
    from venturi.targets.options import APPLIES, VALUES

    known = VALUES.get((name, scheme_of(url)), ())
    if name in APPLIES and not applies(name, url, operation):
        return False
    if known and value.partition(":")[0] not in known:
        return False
    key = "url" if name == "target" else _KEYS.get(name, name)
    model = next((model for model in TABLES.values() if key in model.model_fields), None)
    try:
        return model is None or validate_value(model, key, value) is not None
    except ValueError:
        return False


def _spoken(flag: str, noun: str) -> str:
    """The flag in the words of a system that has points in place of rows."""
    return next((it.alias for it in SETTINGS if it.flag == flag and it.alias and noun == "point"), flag)


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


def _words(cell: Cell) -> tuple[str, ...]:
    p = cell.parameters
    if "partitions" in p:
        # As ClickHouse to Spark was measured: rows that are encoded.
        p = {"data": "states", "streams": p["partitions"], **p}
    ours = "flight://local" if p.get("encoders") is None else "charrow://local"
    url = str(p.get("target") or ours)
    words = ["venturi", "run", "--target", url]
    if p.get("data") not in (None, "records", "remote"):
        words += ["--data", str(p["data"])]
    plugged = sorted(name for name in p if name in _FLAGS and name not in PARAMETERS)
    for name in (*PARAMETERS, *plugged):
        value = p.get(name)
        if value is None or name in _IMPLIED or name in _meaningless(scheme_of(url)):
            continue
        if _needless(name, p, url):
            continue
        words += _option(name, value, cell.noun)
    if p.get("on") is not None:
        # Which cluster of Ray it was is no parameter: the one of this host is the best guess.
        words += ["--on", "spark" if p["on"] == "spark" else "auto"]
    return tuple(words)


def _needless(name: str, p: Mapping[str, Any], url: str) -> bool:
    """Whether the command means this value without naming it."""
    if name == "threads":
        return bool(p[name] == p.get("streams"))
    if name == "rows_per_batch" and servers_batches(p):
        return True  # it is refused: the server decides
    if name in _ALWAYS:
        return False
    if name == "rows_per_stream":
        # How much there is was said in bytes, or in time.
        return p.get("bytes_per_stream") is not None or p.get("duration_ns") is not None
    return spelled(name, p[name]) == _usual(scheme_of(url), p.get("operation") == "ingest").get(name)


@cache
def _meaningless(scheme: str) -> frozenset[str]:
    """Options that this system has not: other tools have parameters of their own by these names."""
    from venturi.targets.options import APPLIES

    strange = frozenset(name for name, schemes in APPLIES.items() if scheme not in schemes)
    return frozenset() if scheme == "empty" else strange


@cache
def _usual(scheme: str, ingest: bool) -> dict[str, str]:
    """What parameters are in this system by default, as a command spells it."""
    # Read here, as they need pydantic: who typed the command does not need them.
    from venturi.plan.settings import Target
    from venturi.plan.workload import INGEST, UPSERT, WORKING_SET, Workload
    from venturi.targets.options import DEFAULTS

    fields = {**Workload.model_fields, **Target.model_fields}
    usual = {name: field.get_default() for name, field in fields.items()}
    usual |= {**UPSERT, **INGEST, "tick_ns": INGEST["tick"], "working_set": WORKING_SET, "durable": "os"}
    usual |= {**DEFAULTS.get(scheme, {}), **({"generate": "inline"} if ingest else {})}
    return {name: spelled(name, value) for name, value in usual.items()}


def flag_of(name: str) -> str:
    """The flag that sets a parameter."""
    return _FLAGS.get(name, "--" + name.replace("_", "-"))


def _option(name: str, value: Any, noun: str) -> list[str]:
    flag = _spoken(flag_of(name), noun)
    if isinstance(value, bool):
        return [flag if value else flag.replace("--", "--no-", 1)]
    if name in _ONE_BY_ONE:
        return [word for part in value for word in (flag, str(part))]
    return [flag, spelled(name, value)]


def spelled(name: str, value: Any) -> str:
    """A parameter's value as a flag takes it."""
    if name in ("duration_ns", "tick_ns") and value is not None:
        return spell_duration(int(value))
    if name == "start_unix_ns" and value is not None:
        return spell_time(int(value))
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
