"""The flags of scenario settings, and what was typed as it is stored."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer

from venturi.common.credentials import named, without_passwords
from venturi.targets.parameters import SETTINGS
from venturi.targets.setting import Known

__all__ = ["command_line", "extended", "settings"]


def settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command these flags, all there are where none is named; it has them in a mapping, `settings`,
    with None for what was not typed."""
    known = {it.keyword: it for it in SETTINGS if it.flag}
    chosen = [known[name] for name in names] if names else list(known.values())

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        def called(**given: Any) -> None:
            found = {it.keyword: given.pop(it.keyword) for it in chosen}
            for it in chosen:
                if it.negative and given.pop(f"no_{it.keyword}"):
                    found[it.keyword] = it.negative
            command(**given, settings=found)

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
    functools.update_wrapper(called, command)
    called.__signature__ = signature.replace(parameters=found)  # type: ignore[attr-defined]
    called.__annotations__ = {it.name: it.annotation for it in found}
    return called


def _parameter(it: Known) -> inspect.Parameter:
    """A setting as typer has parameters of a command."""
    names = [it.flag] if it.kind != "bool" else [f"{it.flag}/--no-{it.flag[2:]}"]
    names += [it.alias] if it.alias is not None else []
    kind: Any = bool if it.kind == "bool" else str if it.form == "once" else list[str]
    option = typer.Option(None, *names, help=it.help, rich_help_panel=it.panel, show_default=False)
    return inspect.Parameter(
        it.keyword, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None
    )


def _negative(it: Known) -> inspect.Parameter:
    """`--no-FLAG` of a setting that is a text."""
    option = typer.Option(
        False,
        f"--no-{it.flag[2:]}",
        help=f"{it.flag} {it.negative}.",
        rich_help_panel=it.panel,
        show_default=False,
    )
    return inspect.Parameter(
        f"no_{it.keyword}", inspect.Parameter.KEYWORD_ONLY, default=option, annotation=bool
    )


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
