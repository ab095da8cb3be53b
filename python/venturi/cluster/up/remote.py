"""Orders for many hosts at once, through ssh or what stands in for it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from venturi.cluster.up import node, processes
from venturi.common.errors import ExitCode, VenturiError
from venturi.targets.urls import printable

__all__ = ["Answer", "Remote", "listed", "raise_errors"]

_AT_ONCE = 64
# What a host needs beyond the order's own time: connecting, and starting a Python.
_SPARE_SECONDS = 20.0
# As if the modules were installed there.
_PROGRAM = """\
import sys, types
for name, source in {sources!r}.items():
    node = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), node.__dict__)
"""


@dataclass(frozen=True)
class Answer:
    """What a host said: `fields`, or an `error` in words with a hint."""

    host: str
    fields: dict[str, Any]
    error: str | None = None
    hint: str | None = None


def listed(text: str) -> list[str]:
    """Names of hosts: `a,b,c`, or `@FILE` with one a line and # before remarks. Raises VenturiError."""
    if text.startswith("@"):
        try:
            lines = Path(text[1:]).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "is no text"
            raise VenturiError(f"--hosts {text}: {why}") from None
        names = [line.partition("#")[0].strip() for line in lines]
    else:
        names = [name.strip() for name in text.split(",")]
    names = [name for name in names if name]
    if not names:
        raise VenturiError("--hosts: names nobody", hint="--hosts a,b,c, or --hosts @FILE with a host a line")
    for name in names:
        # A name that ssh would take for an option could be a command.
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]*", name):
            raise VenturiError(f"--hosts: {printable(name)!r} is no host's name")
        if ":" in name.rpartition("@")[0]:
            raise VenturiError(
                f"--hosts: {printable(name)}: a password on a command line is seen by everybody on this host",
                hint="let ssh log in by a key: --ssh 'ssh -i KEYFILE'",
            )
        if names.count(name) > 1:
            raise VenturiError(f"--hosts: {name} is named twice")
    return names


class Remote:
    """Runs `node.py` on hosts: `SSH HOST PYTHON -`, the program and its order on standard input."""

    def __init__(self, ssh: str, python: str) -> None:
        try:
            self._ssh = shlex.split(ssh)
        except ValueError as error:
            raise VenturiError(f"--ssh {ssh}: {error}") from None
        if not self._ssh:
            raise VenturiError("--ssh: names no command")
        # ssh hands one line to a shell, `ip netns exec` words to the program: what is the same in both.
        if not re.fullmatch(r"[A-Za-z0-9_./+-]+", python):
            raise VenturiError(f"--python {python}: must be a path without blanks and signs of the shell")
        self._python = python
        # In the order in which they import one another.
        names = (processes.__name__, node.__name__)
        folder = Path(__file__).parent
        sources = {name: (folder / f"{name.rpartition('.')[2]}.py").read_text() for name in names}
        self._program = _PROGRAM.format(sources=sources)

    def ask(self, host: str, do: str, seconds: float = 0.0, **order: Any) -> Answer:
        """One host's answer, within `seconds` and what connecting takes."""
        text = json.dumps({"do": do, "seconds": seconds, **order})
        patience = seconds + _SPARE_SECONDS
        try:
            done = subprocess.run(
                [*self._ssh, host, self._python, "-"],
                input=f"{self._program}node.obey({text!r})\n",
                capture_output=True,
                text=True,
                errors="replace",
                timeout=patience,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Answer(
                host, {}, f"no answer within {patience:.0f} s", "is the host up, its firewall open?"
            )
        except OSError as error:
            raise VenturiError(f"--ssh {self._ssh[0]}: {error.strerror}") from None
        for line in reversed(done.stdout.splitlines()):
            if line.startswith(node.MARK):
                fields = json.loads(line[len(node.MARK) :])
                return Answer(host, fields, fields.get("error"), fields.get("hint") or None)
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()] or [
            f"exit status {done.returncode}"
        ]
        if self._python in said[-1] and ("not found" in said[-1] or "No such file" in said[-1]):
            return Answer(host, {}, f"no Python at {self._python}: {said[-1]}", "--python says where it is")
        name = f"{Path(self._ssh[0]).name}: "
        what = said[-1] if said[-1].startswith(name) else name + said[-1]
        return Answer(host, {}, what, f"try by hand: {shlex.join(self._ssh)} {host} true")

    def ask_all(
        self,
        hosts: Sequence[str],
        do: str,
        seconds: float = 0.0,
        orders: Mapping[str, Mapping[str, Any]] | None = None,
        **order: Any,
    ) -> list[Answer]:
        """All hosts' answers, asked at the same time; `orders` adds to a host's own."""
        with ThreadPoolExecutor(min(len(hosts), _AT_ONCE) or 1) as pool:
            asked = [
                pool.submit(self.ask, host, do, seconds, **{**order, **(orders or {}).get(host, {})})
                for host in hosts
            ]
            return [one.result() for one in asked]


def raise_errors(answers: Sequence[Answer]) -> None:
    """One error for all hosts that failed; the first one's hint."""
    failed = [answer for answer in answers if answer.error is not None]
    if failed:
        shown = [f"{answer.host}: {answer.error}" for answer in failed[:5]]
        if len(failed) > 5:
            shown.append(f"and {len(failed) - 5} more hosts")
        raise VenturiError("; ".join(shown), ExitCode.UNREACHABLE, failed[0].hint)
