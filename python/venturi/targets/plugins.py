"""Targets in Python that other packages bring: entry points of the group `venturi.targets`.

One that cannot be used disturbs nobody: it is refused where its scheme is asked for, and named by
`venturi doctor`.
"""

from __future__ import annotations

import json
import math
import os
import re
import traceback
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Annotated, Any

from venturi.common.suffixes import parse_count
from venturi.targets.plugin import INTERFACE, Parameter
from venturi.targets.setting import SEVERAL, Setting, SettingRecord, setting_record

GROUP = "venturi.targets"
OFF = "VENTURI_PLUGINS"
"""The environment variable that leaves them all out, where it is "off"."""
_SCHEME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_KINDS = (int, float, str, bool)


@dataclass(frozen=True)
class Plugin:
    """A target in Python."""

    scheme: str
    package: str
    """Its distribution with its version: `venturi-target-example 0.1`."""
    target: Any
    """A `venturi.targets.plugin.Target`."""

    @property
    def operations(self) -> list[str]:
        return [name for name in ("get", "put") if name in self.target.operations]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(getattr(self.target, "parameters", ()))

    @property
    def gets_own(self) -> bool:
        """Whether a get delivers rows of its own, and not those of the trial."""
        return getattr(self.target, "gets", "trial") == "own"

    def key(self, parameter: Parameter) -> str:
        """How a scenario calls it."""
        return f"{self.scheme.replace('-', '_')}_{parameter.name}"

    @property
    def settings(self) -> dict[str, Setting]:
        """The parameters as settings, by their keys in [target]."""
        return {self.key(it): self._setting(it) for it in self.parameters}

    def _setting(self, it: Parameter) -> Setting:
        default = "" if it.default is None else f" [default: {it.default}]"
        return Setting(
            f"{it.help.rstrip('.')}.{SEVERAL if it.kind is not bool else ''}{default}",
            it.kind,
            panel=f"{self.scheme}:// of {self.package}",
            systems={self.scheme: it.default},
            values={self.scheme: it.values} if it.values else {},
        )

    @property
    def records(self) -> list[SettingRecord]:
        """The same for those who do not read scenarios."""
        return [setting_record("target", key, it) for key, it in self.settings.items()]

    @property
    def fields(self) -> dict[str, Any]:
        """The same for a model of [target]: a type and its default each."""
        # Who reads no scenario does not pay for it.
        from pydantic import AfterValidator, BeforeValidator, StrictBool, StrictStr

        types: dict[type, Any] = {
            int: Annotated[int, BeforeValidator(parse_count)],
            float: Annotated[float, BeforeValidator(_number)],
            str: Annotated[StrictStr, AfterValidator(_short)],
            bool: StrictBool,
        }
        found: dict[str, Any] = {}
        for it, (key, setting) in zip(self.parameters, self.settings.items(), strict=True):
            kind: Any = Annotated[types[it.kind] | None, BeforeValidator(_null), setting]
            found[key] = (kind, None)
        return found


def _null(value: Any) -> Any:
    return None if value in ("none", "null") else value


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    found = float(value)
    if not math.isfinite(found):
        raise ValueError("must be a number")
    return found


def _short(value: str) -> str:
    if len(value) > 4096 or not value.isprintable():
        raise ValueError("must be one line of text, 4096 characters at most")
    return value


def find(schemes: Collection[str]) -> tuple[dict[str, Plugin], dict[str, str]]:
    """Those that are installed, by their schemes, and why others are refused. `schemes`: Venturi's own."""
    if os.environ.get(OFF) == "off":
        return {}, {}
    each: dict[str, list[metadata.EntryPoint]] = {}
    for entry in metadata.entry_points(group=GROUP):
        # One directory twice on the path is no second package.
        previous = each.setdefault(entry.name, [])
        if not any((entry.value, _package(entry)) == (other.value, _package(other)) for other in previous):
            previous.append(entry)
    found: dict[str, Plugin] = {}
    refused: dict[str, str] = {}
    for scheme, entries in each.items():
        try:
            one = _loaded(scheme, entries, schemes)
            _apart(one, found)
            found[scheme] = one
        except ValueError as error:
            refused[scheme] = str(error)
    return found, refused


def _apart(one: Plugin, previous: Mapping[str, Plugin]) -> None:
    """Whether its settings are nobody else's. Raises ValueError."""
    for other in previous.values():
        for key in one.settings.keys() & other.settings.keys():
            raise ValueError(
                f"{one.package}: its setting {key} is one of {other.scheme}:// of {other.package}"
            )


def _package(entry: metadata.EntryPoint) -> str:
    dist = getattr(entry, "dist", None)
    return f"{dist.name} {dist.version}" if dist is not None else entry.value


def _loaded(scheme: str, entries: list[metadata.EntryPoint], schemes: Collection[str]) -> Plugin:
    """Raises ValueError where it cannot be used."""
    packages = sorted(map(_package, entries))
    if len(packages) > 1:
        raise ValueError(
            f"two packages have a target of this name, {' and '.join(packages)}: uninstall one of them"
        )
    package = packages[0]
    if scheme in schemes:
        raise ValueError(
            f"{package} has a target of this name, which stays Venturi's own: rename its entry point"
        )
    if not _SCHEME.fullmatch(scheme):
        raise ValueError(
            f"{package}: {scheme!r} is no scheme: small letters, digits and -, with a letter first"
        )
    doing = "be imported"
    try:
        target = entries[0].load()
        target = target() if isinstance(target, type) else target
        doing = "be read"
        wrong = next(_wrong(scheme, target), None)
    # Whatever it does, it does to itself alone.
    except (Exception, SystemExit) as error:
        at = place_of_error(error)
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"{package} cannot {doing}: {reason}{at and f' ({at})'}") from None
    if wrong is not None:
        raise ValueError(f"{package}: {wrong}")
    return Plugin(scheme, package, target)


def _wrong(scheme: str, target: Any) -> Iterator[str]:
    version = getattr(target, "interface", None)
    if not isinstance(version, int) or isinstance(version, bool):
        yield f"its target has no interface; say which one it was written for: interface = {INTERFACE}"
    if version != INTERFACE:
        from venturi.common.environment import version as installed

        newer = "Venturi" if isinstance(version, int) and version > INTERFACE else "that package"
        this = f"Venturi {installed('venturi') or '(not installed as a package)'}"
        yield (
            f"was written for interface {version} of plugins, and {this} has "
            f"interface {INTERFACE}: install a newer version of {newer}"
        )
    if not callable(getattr(target, "plan", None)):
        yield "its target has no plan(trial)"
    operations = getattr(target, "operations", None)
    if (
        not isinstance(operations, (list, tuple))
        or not operations
        or not set(map(str, operations)) <= {"get", "put"}
    ):
        yield f'its operations are {operations!r}; they are "get", "put" or both, in a tuple'
    if getattr(target, "gets", "trial") not in ("trial", "own"):
        yield f'its gets is {target.gets!r}; it is "trial" or "own"'
    if not isinstance(getattr(target, "name", None), str):
        yield "its target has no name"
    parameters = getattr(target, "parameters", ())
    if not isinstance(parameters, (list, tuple)):
        yield "its parameters are no tuple"
    names = set()
    for it in parameters:
        if not isinstance(it, Parameter):
            yield f"its parameter {it!r} is no venturi.plugin.Parameter"
        elif not isinstance(it.name, str) or not _NAME.fullmatch(it.name) or it.name in names:
            yield f"its parameter {it.name!r} must be called otherwise: small letters, digits, _, and once"
        elif not isinstance(it.help, str):
            yield f"its parameter {it.name} has no help"
        elif it.kind not in _KINDS:
            yield f"its parameter {it.name} is of kind {it.kind!r}; it is int, float, str or bool"
        elif it.default is not None and type(it.default) is not it.kind:
            yield f"its parameter {it.name} is {it.default!r} by default, which is no {it.kind.__name__}"
        elif it.values and (it.kind is not str or (it.default or it.values[0]) not in it.values):
            yield f"its parameter {it.name} has values; then it is a str, and its default one of them"
        elif (key := f"{scheme.replace('-', '_')}_{it.name}") in _keys():
            yield f"its parameter {it.name} would be called {key}, which is a setting of Venturi's own"
        else:
            names.add(it.name)


@cache
def _keys() -> frozenset[str]:
    """Settings of Venturi's own, by key and by flag."""
    text = (resources.files("venturi") / "targets/settings.json").read_text()
    found = json.loads(text)
    flags = (it["flag"].removeprefix("--").replace("-", "_") for it in found)
    return frozenset({*(it["key"] for it in found), *flags, "dry_run", "no_reference"})


def place_of_error(error: BaseException) -> str:
    """Where it was raised: `mine.py, line 12`; empty where that is not known."""
    frames = traceback.extract_tb(error.__traceback__)
    # Neither what called it nor the inside of a compiled library.
    inner = re.compile(r"importlib|\.p[yx][xi]$|venturi.engine.plugin_calls\.py$")
    own = [frame for frame in frames if not inner.search(frame.filename)]
    return f"{Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""
