"""What cannot be asked of databases that rows are read from, said before anything is connected to."""

from __future__ import annotations

import pytest

from support.run import venturi
from venturi.targets.urls import check_url

CANNOT: dict[str, list[tuple[list[str], str]]] = {
    "postgres://h/db": [
        (["--operation", "put"], "takes gets and upserts, no puts"),
        (["--streams", "2", "--query", "SELECT 1"], "--split none"),
        (["--query", "SELECT 1", "--table", "t"], "keep one of the two"),
        (["--query", "SELECT 1", "--split", "hash"], "--split-by id"),
        (["--query", "SELECT 1", "--split", "parts"], "a query has none"),
        (["--query", "SELECT 1", "--rows-per-stream", "5"], "the query's affair"),
        (["--operation", "get", "--duration", "1s"], "must know how many"),
        (["--operation", "get", "--data", "remote"], "does not say what to get"),
        (["--operation", "get", "--data", "usage"], "records, a file, or remote"),
        (["--operation", "upsert", "--split", "hash"], "is for gets, and this is an upsert"),
        (["--operation", "get", "--method", "copy"], "is for upserts, and this is a get"),
        (["--operation", "get", "--wire-format", "arrow"], "it has copy, rows"),
    ],
    "clickhouse://h/db": [
        (["--operation", "upsert"], "takes gets and puts, no upserts"),
        (["--streams", "2", "--query", "SELECT 1"], "--split none"),
        (["--query", "SELECT 1", "--table", "t"], "keep one of the two"),
        (["--query", "SELECT 1", "--split", "hash"], "--split-by id"),
        (["--query", "SELECT 1", "--split", "parts"], "a query has none"),
        (["--query", "SELECT 1", "--rows-per-stream", "5"], "the query's affair"),
        (["--duration", "1s"], "must know how many"),
        (["--data", "remote"], "does not say what to get"),
        (["--operation", "put", "--split", "none"], "is for gets"),
        (["--wire-format", "csv"], "csv"),
        (["--server-settings", "a b"], "is no setting"),
        (["--data", "usage"], "records, a file, or remote"),
        (["--window", "4Mi"], "has no option window"),
    ],
    "flightsql://h:1": [
        (["--operation", "get", "--data", "remote"], "does not say what to get"),
        (["--table", "t", "--split", "parts", "--streams", "2"], "endpoints"),
        (["--table", "t", "--compression", "lz4", "--operation", "get"], "is for puts"),
        (["--operation", "put", "--statement", "text"], "prepared"),
        (["--operation", "upsert"], "takes gets and puts, no upserts"),
        (["--table", "t", "--ack", "batch"], "has no option ack"),
        (["--table", "t", "--rows-per-batch", "100"], "is decided by"),
        (["--table", "t", "--rows-per-batch", "100"], "hint: leave it out"),
    ],
}


@pytest.mark.parametrize(
    ("url", "words", "part"), [(url, *case) for url, cases in CANNOT.items() for case in cases]
)
def test_scenarios_that_cannot_be(url: str, words: list[str], part: str) -> None:
    done = venturi("run", "--target", url, "--dry-run", *words)
    assert done.returncode == 3 and part in " ".join(done.stderr.split()), done.stderr


def test_an_address_alone_says_what_is_missing() -> None:
    done = venturi("run", "--target", "flightsql://h:1")
    assert done.returncode != 0 and "name what is to be read" in done.stderr
    assert "venturi run --target flightsql://h:1 --table NAME" in done.stderr


@pytest.mark.parametrize(
    "url", ["flightsql://h/t", "flightsql://a,b", "flightsql://u@h", "flightsql://h?query=x"]
)
def test_urls_that_are_none(url: str) -> None:
    done = venturi("run", "--target", url, "--table", "t", "--dry-run")
    assert done.returncode == 3 and done.stderr.startswith("error: "), done.stderr


def test_addresses_of_clickhouse() -> None:
    assert check_url("clickhouse://h/db") == "clickhouse://h:8123/db"
    assert check_url("clickhouse+tls://u@h") == "clickhouse+tls://u@h:8443"
    assert check_url("clickhouse://local/db") == "clickhouse://local/db"
    for url in (
        "clickhouse+tls://local",
        "clickhouse://local:8123",
        "clickhouse://u:p@h",
        "clickhouse://h/a/b",
        "clickhouse://h?query=x",
    ):
        with pytest.raises(ValueError, match=r"local|password|database|settings"):
            check_url(url)
