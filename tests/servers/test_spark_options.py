"""What the Spark data source is told, and how it asks for it; no Spark session is needed."""

from __future__ import annotations

import traceback

import pyarrow as pa
import pytest

from support import needs_spark  # noqa: F401  # before what imports Spark
from support.secret import HARD, SCHEMES, SECRET, leaks, urls
from venturi.common.errors import VenturiError
from venturi.spark.options import Options
from venturi.spark.transports import ClickHouse, Flight, spark_schema, transport

pytestmark = pytest.mark.xdist_group("spark")
CHARROW = {"url": "charrow://127.0.0.1:9006", "table": "t"}


def parse(**given: str) -> Options:
    return Options.parse({**CHARROW, **given})


def test_what_it_is_told() -> None:
    options = parse(Encoders="4", columns="a, b", limit="10", checksum="TRUE")
    assert (options.encoders, options.checksum) == ("4", True)
    assert options.sql() == 'SELECT "a", "b" FROM t LIMIT 10'
    assert options.sql(("b",)) == 'SELECT "b" FROM t LIMIT 10'
    asked = Options.parse({"url": CHARROW["url"], "query": "select 1;"})
    assert asked.sql() == "select 1;"
    assert asked.sql(('we"ird',)) == 'SELECT "we""ird" FROM (select 1)'


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": ""}, "option 'url' is missing"),
        ({"url": "http://here"}, "is none of charrow://"),
        ({"encoder": "4"}, "option 'encoder' is not known"),
        ({"encoders": "0"}, "option 'encoders': '0' is less than 1"),
        ({"partitions": "two"}, "option 'partitions': 'two' is not a whole number"),
        ({"columns": "a,,b"}, "is no list of different columns"),
        ({"columns": "a,a"}, "is no list of different columns"),
        ({"checksum": "yes"}, "is neither true nor false"),
        ({"compression": "gzip"}, "is none of none, lz4, zstd"),
        ({"query": "select 1"}, "exclude each other"),
        ({"split_by": "a"}, "option 'split_by' means nothing for charrow://"),
        ({"url": "flight://here:1", "encoders": "2"}, "option 'encoders' means nothing for flight://"),
    ],
)
def test_what_it_refuses(given: dict[str, str], said: str) -> None:
    with pytest.raises(VenturiError) as refused:
        parse(**given)
    assert said in refused.value.message


def test_nothing_to_read() -> None:
    with pytest.raises(VenturiError, match="'query' or 'table' is missing"):
        Options.parse({"url": "charrow://here:9006"})
    with pytest.raises(VenturiError, match="name them in the query"):
        Flight(Options.parse({"url": "flight://here:1", "query": "q", "columns": "a"}))


def test_a_secret_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    options = parse(password_env="VENTURI_TEST_NOWHERE")
    with pytest.raises(VenturiError) as refused:
        options.secret("password_env")
    assert refused.value.hint is not None and "spark.executorEnv.VENTURI_TEST_NOWHERE" in refused.value.hint
    monkeypatch.setenv("VENTURI_TEST_NOWHERE", "x")
    assert options.secret("password_env") == "x"
    assert options.secret("token_env") is None


def test_shares_of_clickhouse_are_every_row_once() -> None:
    way = ClickHouse(Options.parse({"url": "clickhouse://here", "table": "t", "split_by": "id"}))
    assert way.shares(("a",), 2) == [
        'SELECT "a" FROM (SELECT * FROM t) WHERE cityHash64(tuple("id")) % 2 = 0',
        'SELECT "a" FROM (SELECT * FROM t) WHERE cityHash64(tuple("id")) % 2 = 1',
    ]
    whole = ClickHouse(Options.parse({"url": "clickhouse://here", "table": "t"}))
    assert whole.shares(("a",), 2)[1] == (
        'SELECT "a" FROM (SELECT "a" FROM t) WHERE cityHash64(tuple(*)) % 2 = 1'
    )
    # Another partition would ask for another ten rows.
    few = ClickHouse(Options.parse({"url": "clickhouse://here", "table": "t", "limit": "10"}))
    assert few.shares(("a",), 2) == ['SELECT "a" FROM t LIMIT 10']


def test_shares_of_charrow_are_one_query() -> None:
    shares = transport(parse(encoders="4")).shares(("a",), 3)
    assert {share["query"] for share in shares} == {'SELECT "a" FROM t'}
    assert {share["encoders"] for share in shares} == {4}
    assert [(share["partition"], share["partitions"]) for share in shares] == [(0, 3), (1, 3), (2, 3)]


def test_a_type_that_spark_has_not() -> None:
    schema = pa.schema([("ok", pa.uint32()), ("inner", pa.struct([("time", pa.time64("us"))]))])
    with pytest.raises(VenturiError, match=r"column inner\.time: Spark has no type for Arrow's time64"):
        spark_schema(schema)
    with pytest.raises(VenturiError, match="column d: Spark has no type for Arrow's decimal256"):
        spark_schema(pa.schema([("d", pa.decimal256(50, 2))]))
    tagged = pa.dictionary(pa.int8(), pa.large_string())
    found = spark_schema(pa.schema([("a", tagged), ("b", pa.map_(pa.string(), pa.uint8()))]))
    assert found.simpleString() == "struct<a:string,b:map<string,smallint>>"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_secret_in_a_url_is_refused(scheme: str) -> None:
    for url in urls(scheme):
        if "unknown=" in url and scheme.startswith("clickhouse"):
            continue  # a setting of ClickHouse's, which may be called so
        with pytest.raises(VenturiError) as caught:
            Options.parse({"url": url, "query": "select 1"})
        assert not leaks("".join(traceback.format_exception(caught.value))), url


def test_it_takes_names_of_variables() -> None:
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
