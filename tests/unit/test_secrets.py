"""Secrets in the open are refused before anything is written, and are nowhere to be seen; those given by
reference are used, and are nowhere to be seen either. Everything here is the real thing: real commands, real
servers that ask for a log-in, and a search of all that was printed, stored, or shown by `ps`."""

from __future__ import annotations

import base64
import http.server
import json
import re
import shlex
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import venturi
from support.imports import FORMATS, SAMPLES
from support.proven import proven_instrument as proven_instrument  # a fixture
from support.run import DATA
from support.run import venturi as venturi_command
from support.secret import (
    ESCAPED,
    HARD,
    ONCE,
    ROWS,
    SCHEMES,
    SECRET,
    UPSERT,
    WRONG,
    Watch,
    forms,
    leaking_files,
    leaks,
    right_and_wrong,
    searched,
    stays_there,
    urls,
)
from venturi import cli
from venturi.cli.options import command_line
from venturi.common.credentials import carries_secret, command_tells_secret, named, without_named
from venturi.common.errors import VenturiError
from venturi.store.importers.files import import_files
from venturi.targets.urls import check_url

SECRETS = DATA / "secrets"


@pytest.fixture
def typed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str]]:
    """Types a command, which shows the traceback of a fault of our own; its exit code and all it prints."""
    place = tmp_path / "empty"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("VENTURI_DEBUG", "1")

    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["venturi", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capfd.readouterr()
        return int(ended.value.code or 0), said.out + said.err

    return run


def refused(ended: tuple[int, str], what: object) -> None:
    code, said = ended
    assert code not in (0, 1), (what, said)
    assert said.startswith("error: ") and "Traceback" not in said and not leaks(said), (what, said)
    assert not list(Path.cwd().iterdir()), what


WITH_URLS, WITHOUT_URLS = (
    (SECRETS / f"{name}-urls.txt").read_text().splitlines() for name in ("with", "without")
)
"""Commands where a target's URL belongs, and where none does, but may be typed all the same."""


def words(command: str, url: str) -> Iterator[str]:
    given = {"JSON": json.dumps(url), "URL": url, "REST": url[url.find(":") :]}
    given["HOST"] = url.partition("://")[2] or url
    for word in shlex.split(command):
        name = next((name for name in given if name in word), "")
        yield word.replace(name, given[name]) if name else word


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_secret_in_a_url_is_refused(scheme: str, typed: Callable[..., tuple[int, str]]) -> None:
    """Every URL by Python, below; by commands one a way to type it, others for each system, of which each has
    every second way."""
    found = [*urls(scheme)]
    for at, way in [*enumerate(WITH_URLS, SCHEMES.index(scheme))][SCHEMES.index(scheme) % 2 :: 2]:
        url = found[at * 13 % len(found)]
        refused(typed(*words(way, url)), url)


@pytest.mark.parametrize("way", WITHOUT_URLS)
def test_a_url_in_the_wrong_place_is_shown_without_its_secret(
    way: str, typed: Callable[..., tuple[int, str]]
) -> None:
    urls = (
        "mysql://me:§@h:1/db",
        "http://me%3A§@h",
        "mysql:/me:§@h/db",
        "http://h?token=§",
        "mysql://me:§@[::1/db",
    )
    for url in (shape.replace("§", SECRET) for shape in urls):
        if "HOST" not in way or ("me:" in url and "/me" in url):
            refused(typed(*words(way, url)), url)


@pytest.mark.parametrize("given", (SECRETS / "flags.txt").read_text().splitlines())
def test_a_secret_in_a_flag_is_refused(given: str, typed: Callable[..., tuple[int, str]]) -> None:
    words = [word.replace("~", " ").replace("§", SECRET) for word in given.split()]
    refused(typed("run", "--streams", "1", *words, "--no-report"), given)


@pytest.mark.parametrize("line", (SECRETS / "commands.txt").read_text().splitlines())
def test_a_secret_in_free_text(line: str) -> None:
    wanted, kind, text = line.split(" ", 2)
    found = command_tells_secret(shlex.split(text)) if kind == "command" else carries_secret(text)
    assert found is (wanted == "refused")


def test_only_free_texts_of_a_record_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"MY_A": "none", "MY_B": "/home/user", "MY_C": "count", "MY_D": "postgres"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    named([f"{{env:{name}}}" for name in values])
    record = {"outcome": "none", "verification": {"achieved": "count"}, "data": "/home/other/data"}
    said = {"error": {"kind": "postgres", "message": "at /home/other/data: /home/user, then '/home/us'"}}
    masked = {"error": {"kind": "postgres", "message": "at /home/other/data: ***, then '***'"}}
    assert without_named(record | said) == record | masked
    assert without_named({"settings": {"a": "xpostgres"}}) == {"settings": {"a": "x***"}}


@pytest.mark.parametrize("line", (SECRETS / "stored.txt").read_text().splitlines())
def test_the_stored_command_may_be_typed_again_but_for_its_secrets(line: str) -> None:
    words, kept = (
        [word.replace("~", " ").replace("§", SECRET) for word in text.split()] for text in line.split(" => ")
    )
    assert command_line(["venturi", "run", *words]) == ["venturi", "run", *kept]


@pytest.mark.parametrize("text", (SECRETS / "files.txt").read_text().removesuffix("\n").split("\n\n"))
def test_a_secret_in_a_file_is_refused(
    text: str, typed: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    for command, url in (("run", f"mysql:/me:{SECRET}@h/db"), ("tune", f"mysql://me%3A{ESCAPED}@[::1/db")):
        (tmp_path / "my.toml").write_text(text.replace("§", url))
        refused(typed(command, tmp_path / "my.toml"), text)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_python_says_no_more(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for at, url in enumerate(urls(scheme)):
        acts: list[Callable[[str], object]] = [
            lambda url: venturi.run(target=url, streams=1),
            lambda url: venturi.run({"target": {"url": url}}),
            lambda url: venturi.run("quick", places={"far": url}),
            lambda url: venturi.run(matrix={"target": ["flight://h", url]}),
        ]
        for act in (check_url, acts[at % len(acts)]):
            with pytest.raises((ValueError, VenturiError)) as caught:
                act(url)
            assert not leaks("".join(traceback.format_exception(caught.value, limit=0))), url
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "scheme", ["flight", "charrow", "clickhouse", "mysql", "cassandra", "postgres", "akumuli"]
)
def test_the_core_says_no_more(scheme: str, core: Any) -> None:
    """Where nothing of Python's has looked at the URL before: the record of a trial of it."""
    upsert = scheme in ("mysql", "cassandra", "postgres")
    data: dict[str, dict[str, Any]] = {
        "upsert": {"source": "usage", "working_set": 10, "loaded_unix_s": 0},
        "ingest": {"source": "metrics", "hosts": 1, "tick_ns": 10**9, "start_unix_ns": 0, "steps": None},
        "get": {"source": "remote"},
    }
    operation = "upsert" if upsert else "ingest" if scheme == "akumuli" else "get"
    fixed = {
        "trial": "t", "operation": operation, "data": {"seed": 1, **data[operation]}, "options": {},
        "rows_per_batch": 5, "rows_per_stream": 5, "duration_ns": None, "streams": 1, "threads": 1,
    }  # fmt: skip
    for shape in (
        "{s}://me:§@h",
        "{s}://me%3A§@h",
        "{s}://h:1?token=§",
        "{s}x://me:§@h",
        "{s}:/me:§@h",
        "{s}://h#§",
    ):
        url = shape.format(s=scheme).replace("§", SECRET)
        spec = {**fixed, "target": url}
        record = json.loads(core.run_trial(json.dumps(spec), core.Control()))
        assert record["error"]["kind"] == "usage", url
        assert not leaks(json.dumps(record)), record


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_imported_is_stored_without_secrets(name: str, tmp_path: Path) -> None:
    """Every word of a foreign file that may be an address gets a password before it."""
    address = r"\b(?=localhost|node\d|[a-z][\w-]*\.[a-z]|\d+\.\d+\.\d+\.\d+)"
    text = re.sub(address, f"me:{SECRET}@", (SAMPLES / name).read_text())
    planted, more = tmp_path / name, f"\n# cassandra://me:{SECRET}@h password={SECRET}\n"
    planted.write_text(text + more * (planted.suffix != ".json"))
    out = tmp_path / "run"
    try:
        import_files([planted], out)
    except VenturiError as error:
        assert not leaks(f"{error.message} {error.hint}")
    else:
        assert (out / "trials.jsonl").exists()
        assert not leaking_files(out)


# Secrets by reference, at servers that ask for them.


class Influx(http.server.BaseHTTPRequestHandler):
    """Takes lines from whoever knows the word."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        given = str(self.headers.get("Authorization"))
        basic = base64.b64encode(f"me:{HARD}".encode()).decode()
        self._answer(204 if given in (f"Basic {basic}", f"Token {HARD}") else 401)

    def do_GET(self) -> None:
        self._answer(404)

    def _answer(self, code: int) -> None:
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("how", ["password", "token"])
def test_influx(how: str, tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Influx) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"influx+http://127.0.0.1:{server.server_port}/org/bucket"
        user = ["--user", "me"] if how == "password" else []
        flags = ["--target", url, "--operation", "ingest", *user, f"--{how}-env", "MY_WORD"]
        right_and_wrong(tmp_path, "MY_WORD", "run", *flags, *ROWS, "--no-ceilings")
        server.shutdown()


OURS = {
    "flight": ROWS,
    "sqlite": ("--operation", "upsert", *UPSERT),
    "akumuli": ("--operation", "ingest", *ROWS),
    "empty": ROWS,
}
"""A target of each kind: servers of `Reference` and `Store`, a file, nothing."""


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("scheme", OURS)
def test_what_is_in_the_environment_stays_there(scheme: str, tmp_path: Path) -> None:
    """Servers that a run starts for itself inherit the variables, as every child does, and tell nobody."""
    stays_there(tmp_path, "empty://" if scheme == "empty" else f"{scheme}://local", *OURS[scheme])


@pytest.mark.usefixtures("core")
def test_what_a_text_names_is_nowhere_to_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server repeats a statement; a program ends with its secret, which a resume runs again."""
    wrong = ("--init", "select '{env:MY_WORD}' from nowhere")
    target = ("run", "--target", "sqlite://local", "--operation", "upsert")
    (failed,) = searched(tmp_path, *target, *UPSERT, *wrong, code=5, MY_WORD=HARD)
    assert "nowhere" in failed["error"]["message"] and "'***'" in failed["error"]["message"]
    script = f'echo {"x" * 490}"$0" >&2; sleep 0 & wait; test "$0" = "$RIGHT" && echo a'
    out, command = tmp_path / "exec", shlex.join(["sh", "-c", script, "{env:MY_WORD}"])
    monkeypatch.setenv("RIGHT", WRONG)
    words = ("run", "--target", "exec://", "--writes", "lines", "--command", command, *ONCE, "--no-ceilings")
    for word, given in ((HARD, (*words, "--out", out)), (WRONG, ("run", "--resume", out, "--retry-failed"))):
        monkeypatch.setenv("MY_WORD", word)
        done = venturi_command(*given, cwd=tmp_path)
        assert done.returncode == (5 if word == HARD else 0), done.stderr
        assert not leaks(done.stdout + done.stderr) and not leaking_files(out, HARD, WRONG)
    assert "{env:MY_WORD}" in (out / "scenario.toml").read_text()


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    """In each form, in a file, in its name, and on a command line."""
    for form in forms(HARD):
        assert leaks(b"before" + form + b"after")
    for before in ("", "u", "me", "you", "them"):
        assert leaks(base64.b64encode(f"{before}:{HARD}:more".encode())), before
    (tmp_path / "a").write_text(f"x{ESCAPED}x")
    (tmp_path / f"b{SECRET}").write_text("")
    assert [Path(path).name[0] for path, _ in leaking_files(tmp_path)] == ["a", "b"]
    # A child of ours, and one of a child whose own command line has nothing of it.
    for words, text in (([sys.executable, "-S", "-c", "", SECRET], ""), (["sh"], f"env true {SECRET}; :")):
        with Watch(SECRET) as watch:
            subprocess.run(words, input=text, text=True, check=True)
        assert watch.found, words
