"""`venturi scenarios`: lists and shows what is built in."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from venturi.cli.options import argument


class NameOrCommand(TyperGroup):
    """`venturi scenarios quick` is `venturi scenarios show quick`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0] if args else "-"
        if not name.startswith("-") and name not in self.list_commands(ctx):
            args = ["show", *args]
        return super().resolve_command(ctx, args)


EPILOG = """\b
Examples:
  venturi scenarios
  venturi scenarios quick
  venturi run quick
"""
app = typer.Typer(
    cls=NameOrCommand,
    rich_markup_mode=None,
    add_completion=False,
    invoke_without_command=True,
    help="List the built-in scenarios; with a NAME show that one.",
    epilog=EPILOG,
    subcommand_metavar="[NAME | COMMAND]",
)


@app.callback()
def listed(ctx: typer.Context) -> None:
    """List the built-in scenarios; with a NAME show that one."""
    if ctx.invoked_subcommand is None:
        _print_list()


@app.command("list")
def list_() -> None:
    """List the built-in scenarios with what they are for."""
    _print_list()


@app.command()
def show(
    name: str = argument("Name of a built-in scenario.", ..., autocompletion=lambda: _names()),
) -> None:
    """Print a built-in scenario, to copy and change it."""
    from venturi.plan.layers import builtin_text

    print(builtin_text(name), end="")


def _names() -> list[str]:
    from venturi.plan.layers import builtin_names

    return builtin_names()


def _print_list() -> None:
    from venturi.common import toml_text
    from venturi.plan.layers import builtin_names, builtin_text

    names = builtin_names()
    width = max(map(len, names))
    for name in names:
        tree = toml_text.parse(builtin_text(name), name)
        print(f"{name:<{width}}  {tree.get('description', '')}")
