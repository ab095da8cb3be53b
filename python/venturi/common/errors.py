"""Errors for users, and the exit codes of every command.

The table of codes is documented in docs/exit-codes.md; keep both together.
"""

from __future__ import annotations

from enum import IntEnum

from venturi.common.credentials import without_secrets


class ExitCode(IntEnum):
    """What a process ends with; a script can rely on these numbers."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    SCENARIO = 3
    UNREACHABLE = 4
    TRIALS_FAILED = 5
    VERIFICATION = 6
    STORE = 7
    SLOWER = 8
    UNPROVEN = 9
    INTERRUPTED = 130


class VenturiError(Exception):
    """Something a user can act on: printed as one line, never as a traceback. `message` says what and where,
    `hint` what to do next. What was typed in the wrong place, and is repeated there, may be a URL with a
    password: neither shows one."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.USAGE, hint: str | None = None) -> None:
        self.message = without_secrets(message)
        super().__init__(self.message)
        self.exit_code = exit_code
        self.hint = hint if hint is None else without_secrets(hint)


class ScenarioError(VenturiError):
    """The scenario, one of its values, or a data file it names is wrong."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, ExitCode.SCENARIO, hint)


class UnreachableError(VenturiError):
    """A server or a host cannot be reached, or a program that is needed does not start."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, ExitCode.UNREACHABLE, hint)


class StoreError(VenturiError):
    """The run directory cannot be read or written, or a store of time series is damaged."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, ExitCode.STORE, hint)


class DataWarning(UserWarning):
    """A file may not hold what its author thinks that it holds."""


class DamagedWarning(UserWarning):
    """A part of a run cannot be read, and what was asked for goes without it."""
