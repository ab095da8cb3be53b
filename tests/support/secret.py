"""Secrets that were planted, and the search for them: in files, in outputs, in what `ps` shows."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from support.run import command, environment

SECRET = "Hush9f3ZqX77"
"""Of letters and digits: it may stand anywhere in a URL."""
HARD = "Hush+9f/3Zq:X 77%"
"""One that has other forms in a URL and in base64."""


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


class Watch:
    """Reads the command lines of all processes, again and again, as `ps` would show them."""

    def __init__(self, *secrets: str) -> None:
        self._sought = re.compile(b"|".join(re.escape(form) for s in secrets for form in forms(s)))
        self.seen: set[bytes] = set()
        self.found: list[bytes] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.01):
            for line in _command_lines():
                if line not in self.seen:
                    self.seen.add(line)
                    if self._sought.search(line):
                        self.found.append(line)


def _command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()


def searched(
    place: Path, *arguments: object, code: int = 0, secrets: tuple[str, ...] = (HARD,), **variables: str
) -> list[dict[str, Any]]:
    """Runs a command with the secrets in its environment; the trials that it stored. No secret may be in its
    run directory, its outputs, or the command line of any process meanwhile."""
    out = place / "run"
    words = [*arguments, *(("--out", out) if arguments[0] in ("run", "tune") else ())]
    with Watch(*secrets) as watch:
        done = subprocess.run(
            command(*words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment(VENTURI_DEBUG="1", **variables),
            cwd=place,
            timeout=300,
            check=False,
        )
    assert done.returncode == code, done.stderr
    assert not leaks(done.stdout + done.stderr, *secrets)
    assert any(str(words[0]).encode() in line and b"venturi" in line for line in watch.seen)
    assert not watch.found
    assert not leaking_files(place, *secrets)
    trials = out / "trials.jsonl"
    return [json.loads(line) for line in trials.read_text().splitlines()] if trials.exists() else []


ONCE = ("--streams", "1", "--repeats", "1", "--warmup", "0")
ROWS = (*ONCE, "--rows-per-stream", "20k")
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
