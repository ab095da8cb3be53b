# Written by tools/generate from the settings.
# ruff: noqa
# fmt: off
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict

# A list, a tuple or a range is an axis of the matrix.
_Number = float | str | Sequence[float | str] | None
_Switch = bool | Sequence[bool] | None
_Text = str | bool | int | PathLike[str] | Sequence[str | None] | None

Credentials = TypedDict("Credentials", {
    "driver_option_env": Mapping[str, str], "header_env": Mapping[str, str], "headers": Mapping[str, str],
    "password_env": _Text, "tls_ca": _Text, "tls_certificate": _Text, "tls_insecure": _Switch,
    "tls_key": _Text, "tls_server_name": _Text, "token_env": _Text, "user": _Text,
}, total=False)
_Others = TypedDict("_Others", {
    "ack": _Text, "adaptive": _Number, "add": Sequence[str] | str, "backplane": _Text, "batch": _Text,
    "batch_form": _Text, "block_checksum": _Switch, "body": _Text, "bytes_per_stream": _Number,
    "ceilings": _Text, "columns": _Number, "command": _Text, "compression": _Text, "connections": _Text,
    "consistency": _Text, "cross": _Number, "data": _Text, "decoders": _Number, "description": str,
    "dialect": _Text, "digits": _Text, "driver_entrypoint": _Text, "driver_options": Sequence[str] | str,
    "durable": _Text, "duration": _Number, "encoders": _Number, "generate": _Text, "handicap": _Text,
    "hosts": _Number, "http_compression": _Text, "http_method": _Text, "http_port": _Number,
    "in_flight": _Number, "include_setup": _Switch, "init": Sequence[str] | str, "interface": _Text,
    "journal": _Text, "keep": _Switch, "key": Sequence[str] | str, "link": _Text, "loader_resource": _Text,
    "loaders": _Number, "matrix": Mapping[str, Any], "max_block_size": _Number, "max_errors": _Number,
    "max_message_size": _Number, "max_repeats": _Number, "messages": _Text, "method": _Text,
    "metric": _Text, "name": str, "on_failure": _Text, "operation": _Text, "page_size": _Number,
    "partition_key": _Number, "partitions": _Number, "pin": Sequence[int] | str,
    "places": Mapping[str, str], "points_per_batch": _Number, "points_per_stream": _Number, "pool": _Number,
    "protocol": _Text, "query": _Text, "rate": _Number, "reference": str, "repeats": _Number,
    "replication": _Number, "retries": _Number, "ring": _Number, "rows_per_batch": _Number,
    "rows_per_stream": _Number, "sample_interval": _Number, "seed": _Number, "send_buffer": _Number,
    "server": _Text, "server_resource": _Text, "server_settings": _Text, "servers": _Number,
    "setup": _Switch, "shard_key": Sequence[str] | str, "shuffle": _Switch, "shuffle_seed": _Number,
    "split": _Text, "split_by": _Text, "start": _Number, "statement": _Text, "storage": _Text,
    "streams": _Number, "synchronous": _Text, "table": _Text, "tags": Sequence[str] | str,
    "threads": _Number, "tick": _Number, "time": _Text, "timeout": _Number, "token_aware": _Switch,
    "values": _Text, "verify": _Text, "warmup": _Number, "window": _Number, "wire_format": _Text,
    "wire_version": _Text, "without_rowid": _Switch, "working_set": _Number, "write": _Text,
    "writes": _Text,
}, total=False)
class Settings(Credentials, _Others): ...
class RunSettings(Settings, total=False):
    target: _Text
