"""Arrow over HTTP: gets and puts at servers of others, and at `venturi serve http`."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.flight import served
from support.http import python_server, rows, saying_server, stream, taking_server
from support.run import venturi

SHORT = ("--repeats", "1", "--warmup", "0", "--no-report")
QUIET = (*SHORT, "--no-ceilings")
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.apache.arrow.stream\r\n"


def lines(run: Path, name: str = "trials") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / f"{name}.jsonl").read_text().splitlines()]


def trial(run: Path, url: str, *words: object) -> dict[str, Any]:
    done = venturi("run", "--target", url, *words, *QUIET, "--out", run)
    assert (run / "trials.jsonl").exists(), done.stderr
    found = lines(run)[0]
    assert (done.returncode == 0) is (found["outcome"] == "ok"), done.stderr
    return found


def fails(run: Path, url: str, *words: object) -> str:
    """What a trial that fails says."""
    found = trial(run, url, *words, "--timeout", "20s")
    assert found["outcome"] == "failed"
    return str(found["error"]["message"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files as a server of files has them."""
    place = tmp_path_factory.mktemp("files")
    whole = stream(rows(10_000))
    (place / "rows.arrows").write_bytes(whole)
    for part in range(3):
        (place / f"part-{part}.arrows").write_bytes(stream(rows(1000 * (part + 1)), compression="lz4"))
    (place / "cut.arrows").write_bytes(whole[:-3000])
    (place / "long.arrows").write_bytes(whole + b"more")
    (place / "garbage.bin").write_bytes(b"\x07" * 5000)
    (place / "page.html").write_text("<html><body>Not here, but there</body></html>")
    with pa.ipc.new_file(place / "rows.arrow", rows(10).schema) as writer:
        writer.write_table(rows(10))
    return place


@pytest.fixture(scope="module")
def files(folder: Path) -> Iterator[str]:
    with python_server(folder) as url:
        yield url


@pytest.fixture(scope="module")
def ours(core: object) -> Iterator[str]:
    with served("http") as address:
        yield f"http://{address}"


def test_any_server_of_files_will_do(tmp_path: Path, files: str) -> None:
    found = trial(tmp_path / "one", f"{files}/rows.arrows", "--streams", "2")
    assert found["parameters"]["data"] == "remote" and found["counts"]["rows"] == 20_000
    assert found["counts"]["batches"] == 10
    assert found["target"]["software"].startswith("SimpleHTTP") and not found["target"]["reference"]
    assert found["verification"]["achieved"] == "none"
    assert "does not say how many rows" in found["verification"]["note"]
    assert found["cpu"]["server"] is not None and found["counts"]["wire_bytes"] > 20_000 * 8
    parts = trial(tmp_path / "parts", f"{files}/part-{{stream}}.arrows", "--streams", "3")
    assert [one["rows"] for one in parts["streams"]] == [1000, 2000, 3000]


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("none.arrows", "HTTP 404: "),
        ("page.html", "the answer is text/html, and no Arrow stream; it begins: <html><body>Not here"),
        ("cut.arrows", "the answer ended before the Arrow stream in it did"),
        ("long.arrows", "bytes follow the end"),
        ("garbage.bin", "is it an Arrow stream?"),
        ("rows.arrow", "it is a file of Arrow (ARROW1)"),
    ],
)
def test_what_is_no_arrow_stream_fails(tmp_path: Path, files: str, path: str, part: str) -> None:
    assert part in fails(tmp_path / "run", f"{files}/{path}")


NINE = stream(rows(9))
LIES = {
    "internal": (b"HTTP/1.1 500 No\r\nContent-Length: 11\r\n\r\nno \x1b[31mred", b"", "HTTP 500: no [31mred"),
    "endless-head": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 99, "64 KiB"),
    "endless-interim": (b"", b"HTTP/1.1 103 Early\r\n\r\n" * 9, "interim"),
    "absurd-chunk": (OK + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", b"", "size"),
    "endless-trailer": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n%b\r\n0\r\n" % (len(NINE), NINE),
        b"T: 1\r\n" * 99,
        "trailer",
    ),
    "no-end": (OK + b"\r\n" + NINE[:-8], b"", "the answer ended before"),
    "large": (OK + b"\r\n\xff\xff\xff\xff\xff\xff\xff\x7f", b"\0" * 9999, "header of"),
    "brotli": (OK + b"Content-Encoding: br\r\nContent-Length: 3\r\n\r\nabc", b"", "content-encoding br"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_servers_that_lie_end_a_trial(tmp_path: Path, lie: str) -> None:
    answer, endless, part = LIES[lie]
    with saying_server(answer, endless) as url:
        said = fails(tmp_path / "run", f"{url}/x")
    assert part in said and "\x1b" not in said, said


def test_a_bomb_is_no_more_than_its_batches(tmp_path: Path) -> None:
    """A packed body of 256 MiB of nothing, and a batch that claims to become as much."""
    bomb = pa.compress(bytes(1 << 28), codec="zstd", asbytes=True)
    head = OK + b"Content-Encoding: zstd\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    with saying_server(head + bomb) as url:
        said = fails(tmp_path / "body", f"{url}/x", "--http-compression", "zstd")
    assert "follow the end" in said or "ended before" in said, said
    nothing = pa.Array.from_buffers(pa.int64(), 32 << 20, [None, pa.py_buffer(bytes(1 << 28))])
    large = stream(pa.table({"n": nothing}), 32 << 20, compression="zstd")
    assert len(large) < 1 << 20
    with saying_server(OK + b"Content-Length: %d\r\n\r\n" % len(large) + large) as url:
        said = fails(tmp_path / "batch", f"{url}/x")
    assert "once decompressed" in said, said


@pytest.mark.parametrize("body", ["chunked", "length"])
def test_a_put_is_what_any_server_takes(tmp_path: Path, body: str) -> None:
    words = ("--operation", "put", "--rows-per-stream", "10k", "--rows-per-batch", "3000", "--body", body)
    with taking_server() as (url, taken):
        found = trial(tmp_path / "none", f"{url}/x", *words, "--streams", "2")
        assert found["verification"]["achieved"] == "acknowledged"
        told = trial(tmp_path / "told", f"{url}/counts", *words, "--http-method", "put")
        assert (told["verification"]["achieved"], told["verification"]["expected_rows"]) == ("count", 10_000)
        lies = fails(tmp_path / "lies", f"{url}/lies", *words)
        assert "took 9999 rows, and 10000 were sent" in lies
        assert "HTTP 503: it does not say why" in fails(tmp_path / "busy", f"{url}/busy", *words)
    assert [method for method, _, _ in taken] == ["POST", "POST", "PUT", "POST", "POST"]
    _, headers, table = taken[0]
    assert ("Content-Length" in headers) is (body == "length")
    assert table.num_rows == 10_000 and table.schema.types == [pa.int64()] * 4


@pytest.mark.usefixtures("servers_in_process")
def test_rows_of_ours_both_ways(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = (
        "--operation", "get,put", "--http-compression", "none,zstd", "--compression", "none,lz4",
        "--rows-per-stream", "300k", "--streams", "2",
    )  # fmt: skip
    done = venturi("run", "--target", "http+arrow://local", *words, *SHORT, "--out", run)
    assert done.returncode == 0, done.stderr
    found = lines(run)
    assert len(found) == 8
    for record in found:
        assert record["counts"]["rows"] == 600_000
        assert record["verification"]["achieved"] == "checksum"
        assert record["resources"]["server"] and record["target"]["round_trip_ns"] > 0
        packed = record["parameters"]["http_compression"] == "zstd"
        receiver = "client" if record["parameters"]["operation"] == "get" else "server"
        assert ("unpack" in record["stages"][receiver]) is packed
    assert {probe["direction"] for probe in lines(run, "ceilings") if probe["kind"] == "tcp"} == {
        "get",
        "put",
    }
    shown = venturi("show", run)
    assert "raw TCP" in shown.stdout, shown.stdout


@pytest.mark.usefixtures("servers_in_process")
def test_a_file_is_given_to_a_server_of_ours(tmp_path: Path) -> None:
    file = tmp_path / "rows.arrow"
    with pa.ipc.new_file(file, rows(10).schema) as writer:
        writer.write_table(rows(10_000))
    for operation in ("get", "put"):
        words = ("--operation", operation, "--rows-per-stream", "25k", "--rows-per-batch", "1000")
        found = trial(tmp_path / operation, "http+arrow://local", "--data", file, *words)
        assert (found["counts"]["rows"], found["verification"]["achieved"]) == (25_000, "checksum")


def test_others_read_and_write_at_a_server_of_ours(ours: str) -> None:
    table = rows(5000)
    sent = urllib.request.Request(f"{ours}/sales%20of/may", stream(table), method="PUT")
    with urllib.request.urlopen(sent, timeout=20) as answer:
        assert json.load(answer)["rows"] == 5000
    with urllib.request.urlopen(f"{ours}/sales%20of/may", timeout=20) as answer:
        assert answer.headers["Content-Type"] == "application/vnd.apache.arrow.stream"
        assert pa.ipc.open_stream(answer).read_all() == table
    with urllib.request.urlopen(f"{ours}/sales%20of/may?rows=12000&rows_per_batch=900", timeout=20) as answer:
        batches = list(pa.ipc.open_stream(answer))
    assert [batch.num_rows for batch in batches[:2]] == [900, 900]
    assert sum(batch.num_rows for batch in batches) == 12_000
    asked = urllib.request.Request(f"{ours}/records?rows=70000", headers={"Accept-Encoding": "zstd"})
    with urllib.request.urlopen(asked, timeout=20) as answer:
        assert answer.headers["Content-Encoding"] == "zstd"
        unpacked = pa.input_stream(pa.py_buffer(answer.read()), compression="zstd").read()
    assert pa.ipc.open_stream(unpacked).read_all().num_rows == 70_000


def test_a_stranger_makes_no_records(tmp_path: Path, files: str) -> None:
    said = fails(tmp_path / "run", files, "--operation", "get", "--rows-per-stream", "1k")
    assert "is not Venturi's own server" in said and "/PATH" in said
