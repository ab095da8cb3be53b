"""Secrets that were planted, and the search for them: in files, in outputs, in what `ps` shows."""

from __future__ import annotations

import base64
import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote, quote_plus

from support.needs import require
from support.read import records
from support.run import DATA, TESTS, venturi

SECRET = "Hush9f3ZqX77"
"""Of letters and digits: it may stand anywhere in a URL."""
HARD = "Hush+9f/3Zq:X 77%"
"""One that has other forms in a URL and in base64."""
SCHEMES = (
    *("flight", "flight+tls", "charrow", "charrow+tls", "clickhouse", "clickhouse+tls", "mysql", "mysql+tls"),
    *("cassandra", "postgres", "sqlite", "duckdb", "akumuli", "akumuli+udp", "opentsdb", "influx"),
    *("influx+http", "empty"),
)
ESCAPED = quote(HARD, safe="")
IN_A_URL = [text.replace("\\n", "\n") for text in (DATA / "secrets/urls.txt").read_text().splitlines()]
"""§ is the secret."""


def urls(scheme: str) -> Iterator[str]:
    """Of this system, with a secret in every place where somebody may put one."""
    for shape in IN_A_URL:
        for secret in (SECRET, ESCAPED):
            yield shape.format(s=scheme).replace("§", secret)


@functools.cache
def forms(secret: str) -> tuple[bytes, ...]:
    """A secret as it is, escaped, and in base64: by itself, or behind a user's name of whatever length."""
    raw = secret.encode()
    found = {raw, quote(secret, safe="").encode(), quote(secret).encode(), quote_plus(secret).encode()}
    found |= {quote(secret, safe="").lower().encode(), repr(secret)[1:-1].encode()}
    for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            # Letters at either end stand for bits of the neighbours as well.
            text = encode(b"x" * before + raw)
            found.add(text[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6])
    found.add(raw.hex().encode())
    return tuple(sorted(found))


def leaks(data: bytes | str, *secrets: str) -> list[bytes]:
    """The forms of the secrets that are in there."""
    found = data.encode() if isinstance(data, str) else data
    return [form for secret in secrets or (SECRET, HARD) for form in forms(secret) if form in found]


def leaking_files(directory: Path, *secrets: str) -> list[tuple[str, list[bytes]]]:
    """Files in a directory that hold a secret, or are called after it."""
    found = []
    for path in sorted(directory.rglob("*")):
        held = leaks(str(path.relative_to(directory)), *secrets)
        if path.is_file() and not path.is_symlink():
            held += leaks(path.read_bytes(), *secrets)
        if held:
            found.append((str(path), held))
    return found


@functools.cache
def noter() -> Path:
    """A library for LD_PRELOAD that writes down the command lines of processes."""
    place = Path(tempfile.mkdtemp(prefix="noter-"))  # goes with the directory of this process of the run
    place.chmod(0o755)
    require(shutil.which("cc"), "a C compiler")
    source = TESTS / "support" / "process_notes.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", place / "noter.so", source], check=True)
    return place / "noter.so"


_WATCHES: list[Watch] = []


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and _WATCHES:
        words = b"\0".join(os.fsencode(word) for word in arguments[1])
        for watch in _WATCHES:
            watch.started.append(words)


@functools.cache
def _listen() -> None:
    """Once: a hook stays as long as the process."""
    sys.addaudithook(_heard)


class Watch:
    """The command lines of all processes that start meanwhile: those of this process by Python's audit hook,
    theirs by a library that each of them loads. None is missed, however short its life."""

    def __init__(self, *secrets: str) -> None:
        self._sought = re.compile(b"|".join(re.escape(form) for s in secrets for form in forms(s)))
        self.started: list[bytes] = []

    def __enter__(self) -> Watch:
        _listen()
        _WATCHES.append(self)
        self._stack = contextlib.ExitStack()
        handle, name = tempfile.mkstemp(prefix="started-")
        os.fchmod(handle, 0o666)  # servers run as other accounts
        os.close(handle)
        self._notes = Path(name)
        self._stack.callback(self._notes.unlink)
        given = {"LD_PRELOAD": str(noter()), "VENTURI_TEST_NOTES": name}
        self._stack.enter_context(mock.patch.dict(os.environ, given))
        return self

    def __exit__(self, *_: Any) -> None:
        _WATCHES.remove(self)
        self._noted = self._notes.read_bytes()
        self._stack.close()

    @property
    def seen(self) -> bytes:
        noted = self._notes.read_bytes() if self in _WATCHES else self._noted
        return noted + b"\n".join(self.started)

    @property
    def found(self) -> list[bytes]:
        return self._sought.findall(self.seen)


def searched(
    place: Path, *arguments: object, code: int = 0, secrets: tuple[str, ...] = (HARD,), **variables: str
) -> list[dict[str, Any]]:
    """Runs a command with the secrets in its environment; the trials that it stored. No secret may be in its
    run directory, its outputs, or the command line of any process that it starts."""
    out = place / "run"
    words = [*arguments, *(("--out", out) if arguments[0] in ("run", "tune") else ())]
    with mock.patch.dict(os.environ, {"VENTURI_DEBUG": "1", **variables}), Watch(*secrets) as watch:
        done = venturi(*words, cwd=place)
    assert done.returncode == code, done.stderr
    assert not leaks(done.stdout + done.stderr, *secrets)
    assert not watch.found
    assert not leaking_files(place, *secrets)
    return records(out)


ONCE = ("--streams", "1", "--repeats", "1", "--warmup", "0")
ROWS = (*ONCE, "--rows-per-stream", "20k")
UPSERT = (*ONCE, "--duration", "200ms", "--working-set", "1k", "--no-ceilings")
WRONG = "Wrong+9f/3Zq:X 88%"


def right_and_wrong(place: Path, variable: str, *arguments: object, right: str = HARD) -> None:
    """With the right secret and the report, with a wrong one, and with none."""
    for name in ("right", "wrong", "none", "json"):
        (place / name).mkdir()
    secrets = (right, WRONG)
    for trial in searched(place / "right", *arguments, secrets=secrets, **{variable: right}):
        assert trial["outcome"] == "ok", trial["error"]
    assert (place / "right" / "run" / "report.html").exists() and (
        place / "right" / "run" / "environment.json"
    ).exists()
    failed = searched(place / "wrong", *arguments, code=5, secrets=secrets, **{variable: WRONG})
    assert failed and all(trial["error"]["kind"] == "auth" for trial in failed), failed
    stored = searched(place / "json", *arguments, "--json", secrets=secrets, **{variable: right})
    assert stored
    assert not searched(place / "none", *arguments, code=3, secrets=secrets, **{variable: ""})
    assert not list((place / "none").iterdir())


def stays_there(place: Path, target: str, *arguments: object) -> None:
    """What is in the environment of a run of that target, whose server it starts, is nowhere else."""
    words = ("run", "--target", target, *arguments, "--no-ceilings")
    (trial,) = searched(place, *words, secrets=(HARD, SECRET), DB_PASSWORD=HARD, VENTURI_TOKEN=SECRET)
    assert trial["outcome"] == "ok", trial["error"]
    assert (place / "run" / "report.html").exists()
