"""The flags of scenario settings, and their translation into the topmost layer of a scenario.

Values are passed on as they were typed and read by the same code as a file's, so that
"10M", "1..8" and "1,2,4" mean the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from venturi.common import toml_text
from venturi.common.credentials import without_passwords
from venturi.common.errors import VenturiError
from venturi.targets.urls import printable

__all__ = ["command_line", "layer_tree"]


def _option(flag: str, help_text: str, panel: str = "Workload", alias: str | None = None) -> Any:
    names = (flag,) if alias is None else (flag, alias)
    return typer.Option(*names, help=help_text, rich_help_panel=panel, show_default=False)


Text = str | None
_SEVERAL = "One value, or several: 1,2,4 or a range 1..8."

# [workload]
Operation = Annotated[Text, _option("--operation", "get, put, upsert or ingest; get,put for both.")]
Data = Annotated[
    list[str] | None,
    _option(
        "--data",
        "records, states, usage, metrics, archive:DIR, remote, builtin:birdstrikes, or a Parquet, Arrow or "
        "CSV file. Repeatable.",
    ),
]
Columns = Annotated[Text, _option("--columns", "Columns of int64 in a record; 4 is 32 bytes.")]
Values = Annotated[
    Text,
    _option("--values", "Values of records: random or sequential; of an ingest columns of a file, as a,b."),
]
Seed = Annotated[Text, _option("--seed", "Seed of the records' random values.")]
RowsPerBatch = Annotated[
    Text, _option("--rows-per-batch", f"Rows in a batch. {_SEVERAL}", alias="--points-per-batch")
]
RowsPerStream = Annotated[
    Text,
    _option("--rows-per-stream", "Rows a stream moves, as 10M; or a range.", alias="--points-per-stream"),
]
BytesPerStream = Annotated[Text, _option("--bytes-per-stream", "Payload bytes a stream moves, as 1G.")]
Duration = Annotated[Text, _option("--duration", "Time a trial lasts, as 5s, in place of an amount.")]
Streams = Annotated[Text, _option("--streams", f"Concurrent flows; cpus = one for each CPU here. {_SEVERAL}")]
Threads = Annotated[Text, _option("--threads", "Client threads; streams = as many as streams.")]
Rate = Annotated[Text, _option("--rate", "Open loop: batches/s over all streams; none = as fast as it goes.")]
Verify = Annotated[Text, _option("--verify", "checksum, count or none.")]
IncludeSetup = Annotated[
    bool | None,
    _option("--include-setup/--no-include-setup", "Count planning and connecting as part of the interval."),
]
Pin = Annotated[Text, _option("--pin", "CPUs for the client's threads: 0,2-3, or node0.")]
# [workload] of upserts
_UPSERTS = "Upserts"
Key = Annotated[Text, _option("--key", "Columns by which a file's rows meet, as a,b.", _UPSERTS)]
Add = Annotated[Text, _option("--add", "Columns that are added up where they meet.", _UPSERTS)]
WorkingSet = Annotated[
    Text, _option("--working-set", "Distinct rows of usage, as 1M; or their bytes, as 64MB.", _UPSERTS)
]
InFlight = Annotated[
    Text, _option("--in-flight", f"Batches under way on a stream at a time. {_SEVERAL}", _UPSERTS)
]
Generate = Annotated[
    Text, _option("--generate", "Make statements ahead of the clock, or inline, inside it.", _UPSERTS)
]
MaxErrors = Annotated[
    Text, _option("--max-errors", "Batches that may fail before the trial is given up.", _UPSERTS)
]
Retries = Annotated[Text, _option("--retries", "More attempts for a batch that was refused.", _UPSERTS)]
# [workload] and [target] of time series
_SERIES = "Time series"
Hosts = Annotated[Text, _option("--hosts", f"Hosts of metrics, 10 series each. {_SEVERAL}", _SERIES)]
Tick = Annotated[Text, _option("--tick", "Time between two points of a series, as 1s.", _SERIES)]
Start = Annotated[Text, _option("--start", "Time of the first point: a date, a time (UTC), or now.", _SERIES)]
Time = Annotated[Text, _option("--time", "Column of a file that is the time.", _SERIES)]
Tags = Annotated[Text, _option("--tags", "Columns of a file that name a series, as a,b.", _SERIES)]
Metric = Annotated[Text, _option("--metric", "What stands before the columns' names in metrics.", _SERIES)]
Messages = Annotated[
    Text,
    _option("--messages", "akumuli: rows of all metrics, values one by one, or dictionary ids.", _SERIES),
]
Digits = Annotated[
    Text, _option("--digits", "Digits of a value: 17, or shortest that reads back the same.", _SERIES)
]
HttpPort = Annotated[
    Text, _option("--http-port", "Port where the store tells what it holds. [default: 8181]", _SERIES)
]
Durable = Annotated[
    Text,
    _option("--durable", f"X://local: none, os or fsync; what the store's log survives. {_SEVERAL}", _SERIES),
]
Pool = Annotated[Text, _option("--pool", f"X://local: the store's reader threads. {_SEVERAL}", _SERIES)]
# [target] of charrow and ClickHouse
_CHARROW = "Queries (charrow, clickhouse)"


def _charrow(flag: str, help_text: str) -> Any:
    return _option(flag, help_text, _CHARROW)


Encoders = Annotated[
    Text, _charrow("--encoders", f"Threads of the server that encode; auto = one a CPU there. {_SEVERAL}")
]
Decoders = Annotated[
    Text,
    _charrow("--decoders", f"Threads of the client that decode; 0 = each partition's own. {_SEVERAL}"),
]
Query = Annotated[Text, _charrow("--query", "What to get, as SELECT * FROM trips; streams share it.")]
WireVersion = Annotated[Text, _charrow("--wire-version", "Of the protocol: 1.2, or 1.1 for old peers.")]
BlockChecksum = Annotated[
    bool | None, _charrow("--block-checksum/--no-block-checksum", "A checksum with every block (1.2).")
]
MaxBlockSize = Annotated[
    Text, _charrow("--max-block-size", "Largest block accepted, in bytes. [default: 1GiB]")
]
WireFormat = Annotated[
    Text, _charrow("--wire-format", f"clickhouse: arrow, native, rowbinary or parquet. {_SEVERAL}")
]
Split = Annotated[
    Text,
    _charrow("--split", "clickhouse: how streams share rows: hash, key, parts, or none: each reads all."),
]
SplitBy = Annotated[Text, _charrow("--split-by", "clickhouse: the column of split hash and key.")]
ServerSettings = Annotated[
    Text,
    _charrow("--server-settings", "clickhouse: settings of its own, as max_threads=4,max_memory_usage=0."),
]
# [target] of databases
_DATABASES = "Databases"


def _database(flag: str, help_text: str) -> Any:
    return _option(flag, help_text, _DATABASES)


Table = Annotated[
    Text,
    _database("--table", "The table. [default: venturi_usage, or venturi_FILE; clickhouse: venturi_put]"),
]
Setup = Annotated[
    bool | None,
    _database("--setup/--no-setup", "Make database and table first; or upsert into the table as it is."),
]
Keep = Annotated[
    bool | None, _database("--keep/--no-keep", "Leave the table when a trial ends, for a look into it.")
]
Init = Annotated[
    list[str] | None,
    _database("--init", "A statement to run on every connection when it is opened. Repeatable."),
]
Statement = Annotated[Text, _database("--statement", "text, or prepared once and given values.")]
Method = Annotated[
    Text, _database("--method", "postgres, duckdb: upsert, or copy into a staging table and merge.")
]
Storage = Annotated[
    Text,
    _database(
        "--storage", "mysql: rowstore or columnstore of SingleStore, or an ENGINE; clickhouse: an ENGINE."
    ),
]
ShardKey = Annotated[Text, _database("--shard-key", "SingleStore: columns that choose the partition.")]
Partitions = Annotated[Text, _database("--partitions", "SingleStore: partitions of a new database.")]
Write = Annotated[Text, _database("--write", "cassandra: counter or insert.")]
Batch = Annotated[Text, _database("--batch", "cassandra: unlogged, logged, or none: row by row.")]
BatchForm = Annotated[
    Text, _database("--batch-form", "cassandra: message, or statement: BEGIN BATCH ... as one.")
]
Consistency = Annotated[
    Text, _database("--consistency", "cassandra: one, local_one, quorum, local_quorum, all ...")
]
Replication = Annotated[Text, _database("--replication", "cassandra: copies of a row in a new keyspace.")]
PartitionKey = Annotated[
    Text, _database("--partition-key", "cassandra: so many columns of the key choose the partition.")
]
TokenAware = Annotated[
    bool | None,
    _database("--token-aware/--no-token-aware", "cassandra: ask a node that holds the row, or any."),
]
Journal = Annotated[Text, _database("--journal", "sqlite: wal, delete, truncate, persist, memory or off.")]
Synchronous = Annotated[
    Text,
    _database("--synchronous", "sqlite: off, normal, full or extra; postgres: on, off, local ..."),
]
WithoutRowid = Annotated[
    bool | None,
    _database("--without-rowid/--no-without-rowid", "sqlite: a table that is its key's index, or not."),
]
Dialect = Annotated[
    Text,
    _database(
        "--dialect",
        "empty: statements of mysql, postgres, sqlite or duckdb; points of akumuli, opentsdb or influx.",
    ),
]
# [target]
Target = Annotated[
    Text,
    _option(
        "--target",
        "URL, as flight://host:31337 or mysql://host/database; NAME://local starts a server for the run, "
        "NAME://remote on hosts of its own (--on).",
    ),
]
Place = Annotated[
    list[str] | None,
    _option("--place", "LABEL=URL: an address beside others, as remote=flight://host:31337. Repeatable."),
]
Compression = Annotated[
    Text,
    _option(
        "--compression",
        "Of the batches: lz4, zstd, zstd:LEVEL (1-22; zstd is 3) or none; cassandra: lz4, snappy.",
    ),
]
Connections = Annotated[Text, _option("--connections", "per-stream or shared.")]
SendBuffer = Annotated[
    Text,
    _option(
        "--send-buffer",
        "Bytes of a socket's send buffer; none = 256Ki on loopback, else the kernel's.",
    ),
]
Window = Annotated[Text, _option("--window", "HTTP/2 flow-control window in bytes, as 4Mi; none = no limit.")]
MaxMessageSize = Annotated[Text, _option("--max-message-size", "Largest message accepted, in bytes.")]
Handicap = Annotated[
    Text,
    _option(
        "--handicap",
        "STAGE=TIME: CPU time to burn for every batch in a stage of the client, as decode=200us.",
    ),
]
Protocol = Annotated[Text, _option("--protocol", "auto, perf, path, command or ticket.")]
Ack = Annotated[Text, _option("--ack", "When a put batch counts as acknowledged: stream or batch.")]
TlsCa = Annotated[Text, _option("--tls-ca", "File of the certificate authority, for ...+tls://.")]
TlsCertificate = Annotated[Text, _option("--tls-certificate", "File of the client's own certificate.")]
TlsKey = Annotated[Text, _option("--tls-key", "File of the client's own key.")]
TlsServerName = Annotated[Text, _option("--tls-server-name", "Name to expect in the server's certificate.")]
TlsInsecure = Annotated[
    bool | None,
    _option("--tls-insecure/--no-tls-insecure", "Do not check the server's certificate."),
]
TokenEnv = Annotated[Text, _option("--token-env", "Environment variable that holds the bearer token.")]
User = Annotated[Text, _option("--user", "User name.")]
PasswordEnv = Annotated[Text, _option("--password-env", "Environment variable that holds its password.")]
Header = Annotated[list[str] | None, _option("--header", "NAME=VALUE sent with every call. Repeatable.")]
HeaderEnv = Annotated[
    list[str] | None,
    _option("--header-env", "NAME=VARIABLE: a header whose value is in an environment variable. Repeatable."),
]
# [hosts]
_HOSTS = "Several hosts"
On = Annotated[
    Text,
    _option(
        "--on",
        "Where the streams run: ray://HOST:PORT, auto (the Ray cluster of this host), local (Ray, here "
        "alone) or spark; here,spark in both places. [default: this process]",
        _HOSTS,
    ),
]
Loaders = Annotated[
    Text,
    _option(
        "--loaders", f"Processes that share a trial's streams, with --on; one a host. {_SEVERAL}", _HOSTS
    ),
]
Servers = Annotated[
    Text, _option("--servers", "Hosts on which NAME://remote starts a server each. [default: 1]", _HOSTS)
]
LoaderResource = Annotated[
    Text, _option("--loader-resource", "Loaders only on hosts with this resource of Ray's.", _HOSTS)
]
ServerResource = Annotated[
    Text, _option("--server-resource", "Those servers only on hosts with this resource of Ray's.", _HOSTS)
]
Interface = Annotated[
    Text, _option("--interface", "Network in which servers listen on their hosts, as 10.77.0.0/24.", _HOSTS)
]
Master = Annotated[
    Text, _option("--master", "Spark's, as local[4] or spark://HOST:7077, with --on spark.", _HOSTS)
]
# [run]
Repeats = Annotated[Text, _option("--repeats", "Measured trials of each cell.")]
Warmup = Annotated[Text, _option("--warmup", "Trials of each cell before those that count.")]
Shuffle = Annotated[bool | None, _option("--shuffle/--no-shuffle", "Run the cells in a shuffled order.")]
ShuffleSeed = Annotated[Text, _option("--shuffle-seed", "Seed of that order.")]
Adaptive = Annotated[
    Text,
    _option("--adaptive", "Go on until each median's 95 % interval is narrower, as 2%; off = never."),
]
MaxRepeats = Annotated[Text, _option("--max-repeats", "Where the adaptive stop stops at the latest.")]
OnFailure = Annotated[Text, _option("--on-failure", "After a failed trial: continue or stop.")]
Timeout = Annotated[Text, _option("--timeout", "For connecting, and for a stream without progress, as 30s.")]
SampleInterval = Annotated[
    Text, _option("--sample-interval", "Of the counters over time, as 100ms; 0 = none.")
]
Ceilings = Annotated[
    bool | None, _option("--ceilings/--no-ceilings", "Measure the physical limits as well, to compare with.")
]
Set = Annotated[
    list[str] | None,
    _option(
        "--set", "TABLE.KEY=VALUE: any setting by its name in a file, as matrix.streams=1..8. Repeatable."
    ),
]

# Flags whose value may hold commas that do not separate values: a MySQL URL may name several hosts.
_WHOLE = ("pin", "url", "key", "add", "shard_key", "tags", "query", "server_settings")
_REPEATED = ("init",)
"""Flags that make one list of what is given several times."""
_PAIRS = {"header": "headers", "header_env": "header_env"}


def layer_tree(
    workload: Mapping[str, Any],
    target: Mapping[str, Any],
    run: Mapping[str, Any],
    places: Sequence[str],
    settings: Sequence[str],
    hosts: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[tuple[str, ...], str]]:
    """The tree of a scenario layer, and how each key was spelled on the command line."""
    tree: dict[str, Any] = {}
    spelled: dict[tuple[str, ...], str] = {}
    for table, values in (("workload", workload), ("target", target), ("hosts", hosts or {})):
        for key, value in values.items():
            if value is None or value == []:
                continue
            no = "no-" if value is False else ""
            flag = f"--{no}" + {"url": "target"}.get(key, key).replace("_", "-")
            if key in _PAIRS:
                pairs = dict(_pair(flag, text) for text in value)
                tree.setdefault("target", {})[_PAIRS[key]] = pairs
                spelled["target", _PAIRS[key]] = flag
                continue
            several = _several(key, value)
            axis = "target" if key == "url" else key
            place = ("matrix", axis) if several is not None else (table, key)
            tree.setdefault(place[0], {})[place[1]] = value if several is None else several
            spelled[place] = flag
    for key, value in run.items():
        if value is not None:
            tree.setdefault("run", {})[key] = value
            spelled["run", key] = "--" + ("shuffle-seed" if key == "seed" else key.replace("_", "-"))
    for text in places:
        label, url = _pair("--place", text)
        tree.setdefault("places", {})[label] = url
        spelled["places", label] = f"--place {label}"
    for text in settings:
        _set(tree, spelled, text)
    return tree, spelled


def _several(key: str, value: Any) -> Any:
    """The values of an axis where a flag holds more than one; None where it holds one."""
    if key in _REPEATED:
        return None
    if isinstance(value, list):
        return value if len(value) > 1 else None
    if not isinstance(value, str) or key in _WHOLE:
        return None
    if key == "values" and not set(value.split(",")) <= {"random", "sequential"}:
        return None
    if "," in value:
        return [part for text in value.split(",") if (part := text.strip())]
    return [value] if ".." in value and "/" not in value else None


def command_line(argv: Sequence[str]) -> list[str]:
    """What was typed, to be stored with the run: without the values of headers, and without passwords. What
    only looks like a secret stays, as a header's variable or a comparison in a query: of these words advice
    makes the next command."""
    words = ["venturi"]
    masked = False
    for word in argv[1:]:
        flag, equals, text = word.partition("=")
        if flag == "--set" and equals:
            flag, equals, text = text.partition("=")
        if masked:
            word = _masked(word)
        elif flag == "--header" and equals:
            word = f"{flag}={_masked(text)}"
        elif flag.replace(" ", "") == "target.headers" or flag.startswith("target.headers."):
            word = f"{word.removesuffix(text)}***"
        masked = word == "--header"
        words.append(without_passwords(word))
    return words


def _masked(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}=***" if equals else "***"


def _pair(flag: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    # A URL alone may have an = as well, behind which there may be a secret.
    if not equals or not name.strip() or (flag == "--place" and re.search("[:/?#@]", name)):
        form = "LABEL=URL" if flag == "--place" else "NAME=VALUE"
        # What was meant for a header may be a secret, which does not belong on a screen.
        shown = "" if flag.startswith("--header") else f" {printable(text)}"
        raise VenturiError(f"{flag}{shown}: must be written {form}")
    return name.strip(), value.strip()


def _set(tree: dict[str, Any], spelled: dict[tuple[str, ...], str], text: str) -> None:
    name, value_text = _pair("--set", text)
    path = tuple(part.strip() for part in name.split("."))
    if len(path) == 1 and path[0] not in ("name", "description", "reference"):
        raise VenturiError(f"--set {name}: name the table too, as workload.{path[0]} or matrix.{path[0]}")
    found = tree
    for part in path[:-1]:
        inner = found.setdefault(part, {})
        if not isinstance(inner, dict):
            raise VenturiError(f"--set {name}: {part} is not a table")
        found = inner
    found[path[-1]] = toml_text.parse_value(value_text)
    spelled[path] = f"--set {name}"
