"""The command line: modules of subcommands, imported only when one is asked for.

Each module has an `app` (a Typer). Start-up stays fast because no module
imports pyarrow or numpy at its top.
"""

from __future__ import annotations

import atexit
import contextlib
import difflib
import errno
import functools
import gc
import importlib
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from venturi.cli import output
from venturi.common import runtime
from venturi.common.errors import DamagedWarning, DataWarning, ExitCode, StoreError, VenturiError
from venturi.common.texts import listed, say

# In the order of the help text, each with its module.
COMMANDS = {
    "run": "run", "show": "show", "report": "show", "fit": "fit", "predict": "fit", "compare": "compare",
    "ab": "ab", "history": "compare", "best": "fit", "tune": "tune",
    "sql": "data", "import": "data", "generate": "data", "scenarios": "data",
    "serve": "serve", "cluster": "cluster",
    "ceilings": "machine", "links": "machine", "prove": "machine", "doctor": "machine",
}  # fmt: skip

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
EPILOG = """\b
Exit codes:
  0  all went well
  1  a fault of Venturi's own
  2  wrong use of the command line
  3  the scenario or a data file is wrong
  4  the target cannot be reached
  5  some trials failed
  6  verification failed: what arrived is not what was sent
  7  the run directory cannot be used: disk full, locked, damaged, newer format
  8  compare, ab: a cell is significantly slower, by more than the threshold
  9  the self-test failed: do not trust this instrument, here and now
  130  interrupted
"""


@functools.cache
def _command(name: str) -> Any:
    """Made once: a command line asks for it several times."""
    module = importlib.import_module(f"venturi.cli.{COMMANDS[name]}")
    made: Any = typer.main.get_command(module.app)
    command = getattr(made, "commands", {}).get(name, made)
    command.name = name
    _take_plain_values(command, command.context_class(command, **CONTEXT))
    return command


def _take_plain_values(command: Any, context: Any) -> None:
    """Typer asks pydantic about every option, also those that nobody typed: half of the time of a start.
    Defaults, texts and ports need no such check; all else, and what is wrong, is left to Typer."""
    for option in command.get_params(context):
        if not isinstance(option.process_value, functools.partial):
            option.process_value = functools.partial(_processed, option, option.process_value)
    for one in getattr(command, "commands", {}).values():
        _take_plain_values(one, one.context_class(one, parent=context))


def _processed(option: Any, process: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    kind = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    if option.multiple or option.nargs != 1:
        plain = kind == list[str] if value else not option.required
        value = [*(value or ())] if plain else value
    elif value is None or value is option.default:
        plain = not option.required
    elif kind is int and re.fullmatch("[0-9]{1,5}", str(value)):
        bounds = option.type_descriptor.parameter_info
        plain = (bounds.min or 0) <= int(value) <= (bounds.max or 65_535)
        value = int(value) if plain else value
    else:
        plain = kind is str and isinstance(value, str)
    if not plain:
        return process(context, value)
    return option.callback(context, option, value) if option.callback else value


class LazyGroup(TyperGroup):
    """Finds subcommands as modules of this package."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _take_plain_values(self, ctx)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _command(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0] if args else ""
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            close = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            raise VenturiError(
                f"no command is called {name!r}",
                hint=f"did you mean: venturi {close[0]}" if close else "venturi --help lists the commands",
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=EPILOG,
    context_settings=CONTEXT,
)


def _version(wanted: bool) -> None:
    if wanted:
        from venturi.common.environment import version

        typer.echo(f"venturi {version('venturi') or '(not installed, run from its sources)'}")
        raise typer.Exit()


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and end."
    ),
) -> None:
    """Measures how fast data really moves, says why it is not faster, and which setting makes it faster."""


def fail(error: VenturiError) -> NoReturn:
    """Prints an error and ends with its exit code."""
    say("error", error.message)
    if error.hint:
        say("hint", error.hint)
    sys.exit(int(error.exit_code))


def _misused(error: Any) -> VenturiError:
    """The parser's complaint in the form of all others: one line, and where to read on."""
    text = " ".join(str(error.format_message()).split()).rstrip(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "venturi"
    if found := re.fullmatch(
        r"No such option: (\S+)(?: \(Possible options: (.*)\)| Did you mean (.*)\?)?", text
    ):
        offered = (found[2] or found[3] or "").split(", ")
        close = difflib.get_close_matches(found[1], offered, n=1) or offered[:1]
        end = f"; did you mean {close[0]}?" if close[0] else ""
        return VenturiError(f"{found[1]}: no such option{end}", hint=f"{command} --help")
    if found := re.fullmatch(r"Invalid value for '?([^:']*(?:'[^:]*)?)'?: (?:Value error, )?(.*)", text):
        what = found[1].replace("' / '", "/").strip("'")
        return VenturiError(f"{what}: {found[2][:1].lower()}{found[2][1:]}", hint=f"{command} --help")
    return VenturiError(text[:1].lower() + text[1:], hint=f"{command} --help")


def _allow_open_files() -> None:
    """Raises the soft limit to the hard one, which is what it may be raised to: a connection takes some four
    descriptors, and the usual 1024 is for programs that call select(2)."""
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ImportError, OSError, ValueError):
        return  # as many as there are, then


def main() -> None:
    """The command line, also within another program: ends by SystemExit."""
    _allow_open_files()
    # A command lives for seconds, and a large run is millions of objects without a cycle among them: looking
    # through them again and again took a third of the time of `show`.
    gc.set_threshold(200_000, 50, 1000)
    output.prepare()
    warnings.showwarning = _show_warning
    found: BaseException | None = None
    try:
        with runtime.owning_process():
            ended = app(prog_name="venturi", standalone_mode=False)
        found = SystemExit(ended) if isinstance(ended, int) and ended else None
        sys.stdout.flush()
    except BaseException as error:
        found = error
    found = output.outcome(found)
    try:
        if found is None:
            sys.exit(0)
        _end(found)
    except SystemExit as end:
        _leave(end)


def program() -> NoReturn:
    """The program: `main`, and the end of the process, at once unless a thread is left that is no daemon. The
    interpreter would look for garbage and free all objects one by one: a tenth of a second of CPU time, and
    seconds where a large run was read."""
    runtime.ends()
    try:
        main()
    except SystemExit as end:
        threads = set(threading.enumerate()) - {threading.main_thread()}
        if all(one.daemon for one in threads):
            _end_process(end)
        raise
    sys.exit(0)


def _leave(end: SystemExit) -> NoReturn:
    """Ends the process. A thread that is still in a plugin's call cannot be ended with the interpreter, only
    with the process: Python would take it down in the middle of our own frames."""
    core = sys.modules.get("venturi._core")
    if core is None or not core.stuck_calls():
        raise end
    _end_process(end)


def _end_process(end: SystemExit) -> NoReturn:
    # What the interpreter would do that others see.
    code = 0 if end.code is None else end.code
    if not isinstance(code, int):
        print(code, file=sys.stderr)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else 1)


def _show_warning(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
    """Ours are lines as all others; those of libraries are for who writes programs, and stay as they were."""
    if issubclass(category, DamagedWarning | DataWarning):
        say("warning", str(message))
    else:
        _shown(message, category, *where, **more)


_shown = warnings.showwarning


def _end(error: BaseException) -> NoReturn:
    """Ends with an error's words and exit code."""
    if isinstance(error, VenturiError):
        fail(error)
    if isinstance(error, KeyboardInterrupt):
        sys.exit(int(ExitCode.INTERRUPTED))
    if not isinstance(error, Exception):
        raise error
    # The parser's own errors, whichever copy of click typer brings along.
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # type: ignore[attr-defined]
        sys.exit(int(ExitCode.USAGE))
    if hasattr(error, "format_message"):
        fail(_misused(error))
    if type(error).__name__ == "Abort":
        sys.exit(int(ExitCode.INTERRUPTED))
    if os.environ.get("VENTURI_DEBUG"):
        raise error
    if (outside := _not_ours(error)) is not None:
        fail(outside)
    fail(
        VenturiError(
            f"a fault of Venturi's own: {type(error).__name__}: {error}",
            ExitCode.INTERNAL,
            hint="set VENTURI_DEBUG=1 to see where, and please report it",
        )
    )


_REFUSALS = (
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM),
    *(errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO),
)
"""What the system says of paths that users name, wherever we first touch them."""


def _not_ours(error: Exception) -> VenturiError | None:
    """What the machine or a file has done, where that is behind an error; None for our own faults."""
    try:
        os.getcwd()
    except OSError:
        return StoreError("the working directory has been deleted", hint="cd to one that is there")
    if isinstance(error, OSError) and error.filename is not None and error.errno in _REFUSALS:
        return StoreError(f"{listed([str(error.filename)])}: {error.strerror}")
    if isinstance(error, UnicodeEncodeError) and re.search(r"[\udc80-\udcff]", error.object):
        name = error.object[-200:].encode(errors="backslashreplace").decode()
        return StoreError(f"{name}: a name that is not UTF-8", hint="give the file or directory another name")
    return _too_little(error)


def _too_little(error: Exception) -> VenturiError | None:
    """What the system did not give: memory, files, processes."""
    number, text = getattr(error, "errno", None), str(error)
    # What a library could not load or start says why in words alone.
    if isinstance(error, MemoryError) or number == errno.ENOMEM or "failed to map segment" in text:
        what, hint = "no memory was left for this", "free -h; ulimit -v unlimited; or the container's limit"
    elif number in (errno.EMFILE, errno.ENFILE):
        what, hint = "no more files may be open", "ulimit -n 65536"
    elif isinstance(error, BlockingIOError) and hasattr(error, "characters_written"):
        # What is written in pieces says so: stdout or stderr is a pipe or a terminal that does not block.
        what, hint = "the output took no more, and does not wait", "put `| cat` behind the command"
    elif number == errno.EAGAIN or "can't start new thread" in text:
        what, hint = "no more processes or threads may be started", "ulimit -u; or the container's pids"
    else:
        from venturi.store import directory as store

        return store.what_is_damaged()
    return VenturiError(f"{what}: {text or type(error).__name__}", ExitCode.SCENARIO, hint=hint)
