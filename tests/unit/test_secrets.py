"""Secrets in the open are refused before anything is written, and are nowhere to be seen; those given by
reference are used, and are nowhere to be seen either. Everything here is the real thing: real commands, real
servers that ask for a log-in, and a search of all that was printed, stored, or shown by `ps`."""

from __future__ import annotations

import base64
import http.server
import json
import re
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import venturi
from support.imports import FORMATS, SAMPLES
from support.proven import proven_instrument as proven_instrument  # a fixture
from support.secret import (
    HARD,
    ROWS,
    SECRET,
    UPSERT,
    Watch,
    forms,
    leaking_files,
    leaks,
    right_and_wrong,
    stays_there,
)
from venturi import cli
from venturi.cli.flags import command_line
from venturi.common.errors import VenturiError
from venturi.store.importers.files import import_files
from venturi.targets.urls import check_url

SCHEMES = (
    *("flight", "flight+tls", "charrow", "charrow+tls", "clickhouse", "clickhouse+tls", "mysql", "mysql+tls"),
    *("cassandra", "postgres", "sqlite", "duckdb", "akumuli", "akumuli+udp", "opentsdb", "influx"),
    *("influx+http", "empty"),
)
ESCAPED = quote(HARD, safe="")
IN_A_URL = (
    *("{s}://me:§@h:1/db", "{s}://:§@h:1/db", "{s}://me%3A§@h:1/db", "{s}://me%253A§@h:1/db"),
    *("{s}://h:1?token=§", "{s}://h:1/?authorization=§", "{s}://h:1/db?password=§", "{s}://h:1?x-api-key=§"),
    *("{s}://h:1?unknown=§", "{s}://h:1?§", "{s}://h:1?a@§", "{s}://h:1#token=§", "{s}://h:1#§"),
    *("{s}://h:1?command=a&token=§", "{s}://h:1?query=a&password=§", "{s}://h:1?a=b&§"),
    *("{s}://me:§@[::1/db", "{s}://me:§@[::1]x/db", "{s}://me:§@h:x", "{s}://me:§@", "{s}://me:§%40h/db"),
    *("{s}://me:1/§@h/db", "{s}://me:1?§@h/db", "{s}://me:1#§@h/db", "{s}://me:§@h/%zz", "{s}://me:§@h,,i"),
    *("{s}:/me:§@h/db", "{s}:me:§@h/db", "{s}:///me:§@h/db", "{s}:§@h", "{s}x://me:§@h", "{s}x://h?token=§"),
    *(" {s}://me:§@h/db", "x{s} ://me:§@h/db", "me:§@h/db", "http://me:§@h/db", "{s}://me:§@h/d\nb"),
)
"""§ is the secret."""


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


def urls(scheme: str) -> Iterator[str]:
    for shape in IN_A_URL:
        for secret in (SECRET, ESCAPED):
            yield shape.format(s=scheme).replace("§", secret)


WITH_URLS: dict[str, Callable[[str], tuple[object, ...]]] = {
    "dry run": lambda url: ("run", "quick", "--target", url, "--dry-run"),
    "run": lambda url: ("run", "--target", url, "--streams", "1"),
    "place": lambda url: ("run", "quick", "--place", f"far={url}", "--dry-run"),
    "label": lambda url: ("run", "quick", "--place", url, "--dry-run"),
    "set": lambda url: ("run", "quick", "--set", f"target.url={url}", "--dry-run"),
    "axis": lambda url: ("run", "quick", "--set", f"matrix.target=[{json.dumps(url)}]", "--dry-run"),
    "tune": lambda url: ("tune", url),
    "ceilings": lambda url: ("ceilings", url),
}
WITHOUT_URLS: dict[str, Callable[[str], tuple[object, ...]]] = {
    "scenario": lambda url: ("run", url, "--dry-run"),
    "data": lambda url: ("run", "--data", url, "--dry-run"),
    "show": lambda url: ("show", url),
    "report": lambda url: ("report", url),
    "fit": lambda url: ("fit", url),
    "best": lambda url: ("best", url),
    "import": lambda url: ("import", url),
    "compare": lambda url: ("compare", url, url),
    "predict": lambda url: ("predict", url, "streams=2"),
    "sql": lambda url: ("sql", url, "select 1"),
    "resume": lambda url: ("run", "--resume", url),
    "recorded": lambda url: ("tune", f"recorded:{url}"),
    "scenarios": lambda url: ("scenarios", url),
    "command": lambda url: (url,),
    "on": lambda url: ("run", "quick", "--on", url, "--dry-run"),
    "ray": lambda url: ("run", "quick", "--on", "ray" + url[url.find(":") :], "--dry-run"),
    "master": lambda url: ("run", "quick", "--on", "spark", "--master", url),
    "hosts": lambda url: ("cluster", "up", "--hosts", url.partition("://")[2] or url),
    "slurm": lambda url: ("cluster", "slurm", "--nodes", "2", "--print", "quick", "--target", url),
}
"""Where no target's URL belongs, but may be typed all the same."""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_secret_in_a_url_is_refused(scheme: str, typed: Callable[..., tuple[int, str]]) -> None:
    """Every URL by Python, below; by commands one a way to type it, others for each system."""
    found = [*urls(scheme)]
    for at, way in enumerate(WITH_URLS.values(), SCHEMES.index(scheme)):
        url = found[at * 13 % len(found)]
        refused(typed(*way(url)), url)


@pytest.mark.parametrize("way", WITH_URLS)
def test_a_secret_in_a_url_is_refused_everywhere(way: str, typed: Callable[..., tuple[int, str]]) -> None:
    shapes = (
        "{s}://me%3A§@h:1/db",
        "{s}://h:1?token=§",
        "{s}://me:§@[::1/db",
        "{s}:/me:§@h/db",
        "{s}x://me:§@h",
    )
    for scheme in ("flight", "mysql", "influx+http"):
        for shape in shapes:
            url = shape.format(s=scheme).replace("§", SECRET)
            refused(typed(*WITH_URLS[way](url)), url)


@pytest.mark.parametrize("way", WITHOUT_URLS)
def test_a_url_in_the_wrong_place_is_shown_without_its_secret(
    way: str, typed: Callable[..., tuple[int, str]]
) -> None:
    shapes = (
        "{s}://me:§@h:1/db",
        "{s}://me%3A§@h",
        "{s}:/me:§@h/db",
        "{s}://h?token=§",
        "{s}://me:§@[::1/db",
    )
    for url in (shape.format(s=s).replace("§", SECRET) for s in ("mysql", "http") for shape in shapes):
        if way != "hosts" or ("me:" in url and "/me" in url):
            refused(typed(*WITHOUT_URLS[way](url)), url)


FLAGS = (
    *("--token-env §", "--password-env §", "--header authorization=§", "--header X-Api-Key=§", "--header §"),
    *("--header x=Bearer~§", "--header-env x=§", "--header-env §", "--header-env Authorization:~§"),
    *("--set target.token_env=§", "--set target.headers.x-token=§", "--set target.header_env.a=§"),
    *("--set=target.headers.cookie=§", "--set password=§", "--set target.password=§", "--set target.token=§"),
    *("--set target.url.password=§", "--password §", "--password=§", "--token=§", "--token-env=§"),
    *("--target mysql://h --user me:§", "--target mysql://h --set target.user=me:§"),
    *("--target clickhouse://h --server-settings password=§", "--set description=mysql://me:§@h/db"),
    *("--target postgres://h --init ALTER~ROLE~me~PASSWORD~'§'", "--set description=http://me:§@h"),
    *("--target mysql://h --init CREATE~USER~me~IDENTIFIED~BY~'§'", "--header x-url=https://me:§@h"),
    *(
        "--target mysql://h --init SET~PASSWORD~=~'§'",
        "--target postgres://h --init ALTER~ROLE~a~PASSWORD~E'§'",
    ),
    "--target mysql://h --init SET~PASSWORD~FOR~me~=~PASSWORD('§')",
    '--target mysql://h --init CREATE~USER~x~IDENTIFIED~BY~"§"',
    *("--target charrow://h --query select~*~from~url('http://me:§@h/x')", "--data https://me:§@h/x.csv"),
)


@pytest.mark.parametrize("given", FLAGS)
def test_a_secret_in_a_flag_is_refused(given: str, typed: Callable[..., tuple[int, str]]) -> None:
    words = [word.replace("~", " ").replace("§", SECRET) for word in given.split()]
    for more in ("--dry-run", "--no-report"):
        refused(typed("run", "--streams", "1", *words, more), given)


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("--header-env authorization=MY_HEADER", "--header-env authorization=MY_HEADER"),
        ("--header-env=authorization=MY_HEADER", "--header-env=authorization=MY_HEADER"),
        ("--set target.header_env.token=MY_TOKEN", "--set target.header_env.token=MY_TOKEN"),
        ("--query select~1~where~token~=~'x'", "--query select~1~where~token~=~'x'"),
        ("--header x-tenant=§", "--header x-tenant=***"),
        ("--header=x-tenant=§", "--header=x-tenant=***"),
        ("--set target.headers.x-tenant=§", "--set target.headers.x-tenant=***"),
        ("--set=target.headers.x-tenant=§", "--set=target.headers.x-tenant=***"),
        ("--set target.headers~=~{a='§'}", "--set target.headers~=***"),
        ("--data http://me:§@h/x.csv", "--data http://***@h/x.csv"),
        ("--init ALTER~ROLE~me~PASSWORD~'§'", "--init ALTER~ROLE~me~PASSWORD~***"),
    ],
)
def test_the_stored_command_may_be_typed_again_but_for_its_secrets(typed: str, stored: str) -> None:
    words, kept = (
        [word.replace("~", " ").replace("§", SECRET) for word in text.split()] for text in (typed, stored)
    )
    assert command_line(["venturi", "run", *words]) == ["venturi", "run", *kept]


@pytest.mark.parametrize(
    "text",
    [
        "[target]\nurl = '§'",
        "[places]\nfar = '§'",
        "[places]\n'§' = 'flight://h'",
        "[matrix]\ntarget = ['§']",
        "[matrix]\nurl = ['flight://h', '§']",
        "[matrix]\nstreams = [1]\nalso = [{ target = ['§'] }]",
        "description = 'see §'",
        "name = '§'",
        "[target]\nurl = 'mysql://h'\ninit = ['select 1', '§']",
        "[target.headers]\nx = '§'",
        "[target.options]\npassword = '§'",
        "[target]\noptions = { token = '§' }",
        "[workload]\ndata = '§'",
        "[workload]\ndata = { source = 'file', path = '§' }",
        "['§']\na = 1",
        "'§' = 1",
        "a = '§",
    ],
)
def test_a_secret_in_a_file_is_refused(
    text: str, typed: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    for url in (f"mysql://me:{SECRET}@h:1/db", f"mysql:/me:{SECRET}@h/db", f"mysql://me%3A{ESCAPED}@[::1/db"):
        (tmp_path / "my.toml").write_text(text.replace("§", url))
        refused(typed("run", tmp_path / "my.toml"), text)
        refused(typed("tune", tmp_path / "my.toml"), text)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_python_says_no_more(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from venturi.spark.options import Options

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
            assert not leaks("".join(traceback.format_exception(caught.value))), url
        if "unknown=" in url and scheme.startswith("clickhouse"):
            continue  # for Spark a setting of ClickHouse's, which may be called so
        with pytest.raises(VenturiError) as caught:
            Options.parse({"url": url, "query": "select 1"})
        assert not leaks("".join(traceback.format_exception(caught.value))), url
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "scheme", ["flight", "charrow", "clickhouse", "mysql", "cassandra", "postgres", "akumuli"]
)
def test_the_core_says_no_more(scheme: str, core: Any) -> None:
    """Where nothing of Python's has looked at the URL before: the record of a trial of it."""
    upsert = scheme in ("mysql", "cassandra", "postgres")
    data = {
        "upsert": {"source": "usage", "working_set": 10, "seed": 1, "loaded_unix_s": 0},
        "ingest": {
            "source": "metrics",
            "hosts": 1,
            "seed": 1,
            "tick_ns": 10**9,
            "start_unix_ns": 0,
            "steps": None,
        },
        "get": {"source": "remote"},
    }
    operation = "upsert" if upsert else "ingest" if scheme == "akumuli" else "get"
    sizes = {"rows_per_batch": 5, "rows_per_stream": 5, "duration_ns": None, "streams": 1, "threads": 1}
    for shape in (
        "{s}://me:§@h",
        "{s}://me%3A§@h",
        "{s}://h:1?token=§",
        "{s}x://me:§@h",
        "{s}:/me:§@h",
        "{s}://h#§",
    ):
        url = shape.format(s=scheme).replace("§", SECRET)
        spec = {
            "trial": "t",
            "target": url,
            "operation": operation,
            "data": data[operation],
            "options": {},
            **sizes,
        }
        record = json.loads(core.run_trial(json.dumps(spec), core.Control()))
        assert record["error"]["kind"] == "usage", url
        assert not leaks(json.dumps(record)), record


def test_spark_takes_names_of_variables() -> None:
    from venturi.spark.options import Options

    given = {"url": "flight://h", "query": "q"}
    for more in ({"token_env": HARD}, {"password_env": HARD, "user": "me"}):
        with pytest.raises(VenturiError, match="must be the name of an environment variable") as caught:
            Options.parse({**given, **more})
        assert not leaks("".join(traceback.format_exception(caught.value)))
    assert Options.parse({"url": "clickhouse://me@h/db", "query": "q"}).user == "me"
    options = Options.parse({**given, "token_env": SECRET})
    with pytest.raises(VenturiError, match="names no environment variable that is set") as caught:
        options.secret("token_env")
    assert not leaks("".join(traceback.format_exception(caught.value)))


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_imported_is_stored_without_secrets(name: str, tmp_path: Path) -> None:
    """Every word of a foreign file that may be an address gets a password before it."""
    text = re.sub(
        r"\b(?=localhost|node\d|[a-z][\w-]*\.[a-z]|\d+\.\d+\.\d+\.\d+)",
        f"me:{SECRET}@",
        (SAMPLES / name).read_text(),
    )
    planted = tmp_path / name
    planted.write_text(
        text + f"\n# cassandra://me:{SECRET}@h password={SECRET}\n" * (planted.suffix != ".json")
    )
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
        flags = [
            "--target",
            f"influx+http://127.0.0.1:{server.server_port}/org/bucket",
            "--operation",
            "ingest",
        ]
        flags += (
            ["--user", "me", "--password-env", "MY_WORD"] if how == "password" else ["--token-env", "MY_WORD"]
        )
        right_and_wrong(tmp_path, "MY_WORD", "run", *flags, *ROWS, "--no-ceilings")
        server.shutdown()


OURS = {
    **dict.fromkeys(("flight", "charrow"), ROWS),
    **dict.fromkeys(("sqlite", "duckdb"), ("--operation", "upsert", *UPSERT)),
    **dict.fromkeys(
        ("akumuli", "akumuli+udp", "opentsdb", "influx", "influx+http"), ("--operation", "ingest", *ROWS)
    ),
    "empty": ROWS,
}


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("scheme", OURS)
def test_what_is_in_the_environment_stays_there(scheme: str, tmp_path: Path) -> None:
    """Servers that a run starts for itself inherit the variables, as every child does, and tell nobody."""
    stays_there(tmp_path, "empty://" if scheme == "empty" else f"{scheme}://local", *OURS[scheme])


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
