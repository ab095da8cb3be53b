"""Options that several commands have, how they are read, and how a command writes its answer."""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from venturi.common.credentials import named, without_passwords
from venturi.common.errors import ScenarioError, StoreError, VenturiError
from venturi.common.texts import say
from venturi.targets.parameters import SETTINGS
from venturi.targets.setting import SettingRecord

if TYPE_CHECKING:
    from venturi.analysis.results import Results
    from venturi.report.document import Document

TYPED = "VENTURI_TYPED"
"""The variable with what was typed, and the command that resumes the run, if that is not `venturi run`."""


def flag(help: str, default: Any = None, *names: str, **more: Any) -> Any:
    """An option of a command, called as its parameter unless it has `names`."""
    return typer.Option(default, *names, help=help, **more)


def switch(help: str, *names: str, **more: Any) -> Any:
    """An option that is off, and needs no value."""
    return typer.Option(False, *names, help=help, **more)


def argument(help: str, default: Any = None, **more: Any) -> Any:
    """A word of a command by its place. One that must be there has the default `...`."""
    return typer.Argument(default, help=help, **more)


RUN = argument("A run directory, last (the newest), or reference:NAME.", "last", metavar="RUN")
WHERE = flag('Only cells for which this holds, as in "streams <= 8"; may be repeated.', metavar="CONDITION")
THRESHOLD = flag("How much slower a cell may become before the exit code is 8.", "3%")
CONFIDENCE = flag("Of intervals, and of a difference that is called one.", "95%")
UNPROVEN = switch("Go on if the self-test fails, and mark every figure as unproven.", "--unproven")
EXECUTOR = flag("core, or a module of tests.", "core", hidden=True)
QUIET = switch("No progress.", "--quiet", "-q")
Format = enum.StrEnum("Format", ["table", "json"])
"""A table for people, JSON for programs."""
FORMAT = flag("table for people, json in base units.", Format.table)


def share(flag: str, text: str, least: float = 0.0) -> float:
    """A percentage as a share; 0 is allowed where `least` is 0."""
    from venturi.common.suffixes import parse_percent

    if least == 0.0 and text.strip().rstrip("%").strip() in ("0", "0.0"):
        return 0.0
    try:
        found = parse_percent(text) / 100
    except ValueError as error:
        raise VenturiError(f"{flag}: {error}", hint=f"as in {flag} 5%") from None
    if found < least:
        raise VenturiError(f"{flag}: {text!r} is under {least * 100:g}%", hint=f"as in {flag} 95%")
    return found


def time(flag: str, text: str) -> int:
    """A time in nanoseconds."""
    from venturi.common.suffixes import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise VenturiError(f"{flag}: {error}", hint=f"as in {flag} 50ms") from None


def target(text: str) -> str:
    """The URL that was named. Raises ScenarioError where it is none."""
    from venturi.targets.urls import check_url

    try:
        return check_url(text)
    except ValueError as error:
        raise ScenarioError(f"TARGET: {error}") from None


def read(run: str | Path) -> Results:
    """Its results; warns where they are unproven. Raises VenturiError where there is no run."""
    from venturi.analysis import results

    found = results.load(run)
    warn(run, found.environment)
    return found


def warn(run: str | Path, environment: Mapping[str, Any]) -> None:
    """Where its figures are unproven."""
    from venturi.analysis.cells.machines import unproven

    if unproven(environment):
        say("warning", f"{run}: its figures are unproven: the self-test failed before the run")


@contextlib.contextmanager
def written(path: object) -> Iterator[None]:
    """Raises StoreError where a file cannot be written: that of the error, else this one."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{error.filename or path}: cannot be written: {error.strerror or error}") from None


def write_text(path: Path, text: str) -> None:
    """Writes a file that a user named. Raises StoreError where that fails."""
    with written(path):
        path.write_text(text, encoding="utf-8")


def print_json(found: object) -> None:
    """An answer for programs."""
    print(json.dumps(found, ensure_ascii=False, indent=2, default=str))


def print_answer(
    format: str, document: Callable[[], Document], machine: Callable[[], object], level: int = 1
) -> None:
    """An answer as `--format` names it. In Markdown its title is a heading of this level."""
    if format == "json":
        print_json(machine())
    elif format == "markdown":
        from venturi.report import markdown

        sys.stdout.write(markdown.text(document(), level))
    else:
        print_document(document())


def print_document(found: Document) -> None:
    """An answer for people."""
    from rich.console import Console

    from venturi.report import terminal

    terminal.write(found, Console())


def settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command these flags, all there are where none is named; it has them in a mapping, `settings`,
    with None for what was not typed."""
    by_keyword = {it.keyword: it for it in SETTINGS if it.flag}
    chosen = [by_keyword[name] for name in names] if names else list(by_keyword.values())

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        def called(**values: Any) -> None:
            found = {it.keyword: values.pop(it.keyword) for it in chosen}
            for it in chosen:
                if it.negative and values.pop(f"no_{it.keyword}"):
                    found[it.keyword] = it.negative
            command(**values, settings=found)

        more = [*map(_parameter, chosen), *(_negative(it) for it in chosen if it.negative)]
        return extended(command, "settings", more, called)

    return decorated


def extended(
    command: Callable[..., None], name: str, more: Sequence[inspect.Parameter], called: Callable[..., None]
) -> Callable[..., None]:
    """`called`, with the parameters of the command, and these in the place of the one of that name."""
    signature = inspect.signature(command, eval_str=True)
    found: list[inspect.Parameter] = []
    for own in signature.parameters.values():
        found += [it.replace(kind=own.kind) for it in more] if own.name == name else [own]
    return with_parameters(command, found, called)


def with_parameters(
    command: Callable[..., None], found: Sequence[inspect.Parameter], called: Callable[..., None]
) -> Callable[..., None]:
    """`called`, with the name and the help of the command and these parameters."""
    functools.update_wrapper(called, command)
    called.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    called.__annotations__ = {it.name: it.annotation for it in found}
    return called


def parameter(name: str, option: Any, kind: Any) -> inspect.Parameter:
    """A flag as typer has parameters of a command."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind)


def _parameter(it: SettingRecord) -> inspect.Parameter:
    """A setting as typer has parameters of a command."""
    names = [it.flag] if it.kind != "bool" else [f"{it.flag}/--no-{it.flag[2:]}"]
    names += [it.alias] if it.alias is not None else []
    kind: Any = bool if it.kind == "bool" else str if it.form == "once" else list[str]
    return parameter(it.keyword, flag(it.help, None, *names, rich_help_panel=it.panel), kind | None)


def _negative(it: SettingRecord) -> inspect.Parameter:
    """`--no-FLAG` of a setting that is a text."""
    option = switch(f"{it.flag} {it.negative}.", f"--no-{it.flag[2:]}", rich_help_panel=it.panel)
    return parameter(f"no_{it.keyword}", option, bool)


def command_line(argv: Sequence[str], settled: Mapping[str, str] | None = None) -> list[str]:
    """What was typed, to be stored with the run: without the values of headers, and without passwords. What
    only looks like a secret stays, as a header's variable or a comparison in a query: of these words advice
    makes the next command. `settled` are flags in the place of those that were typed, or beside them, for the
    same command shall measure the same."""
    if settled:
        flags = {f"--{name}" for name in settled}
        replaced = [word for word in argv if word.partition("=")[0] not in flags]
        if "target" in settled and "--target" in argv:
            replaced.remove(argv[argv.index("--target") + 1])
        argv = [*replaced, *(word for flag, value in settled.items() for word in (f"--{flag}", value))]
    words = ["venturi"]
    masked = False
    for word in argv[1:]:
        flag, equals, text = word.partition("=")
        if flag == "--set" and equals:
            flag, equals, text = text.partition("=")
        if masked:
            word = _masked(word)
        elif flag == "--header" and equals:
            word = f"{flag}={_masked(text)}"
        elif (flag.replace(" ", "") == "target.headers" or flag.startswith("target.headers.")) and not named(
            text
        ):
            word = f"{word.removesuffix(text)}***"
        masked = word == "--header"
        words.append(without_passwords(word))
    return words


def _masked(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    if named(pair):
        return pair
    return f"{name}=***" if equals else "***"
