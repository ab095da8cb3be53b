"""What `spark.read.format("venturi")` is told, checked before anything is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import unquote

from venturi.common import credentials
from venturi.common.errors import VenturiError
from venturi.targets.urls import check_url, printable

_SCHEMES = ("charrow", "charrow+tls", "flight", "flight+tls", "clickhouse", "clickhouse+tls")
_ONLY = {
    "encoders": ("charrow",),
    "compression": ("charrow", "clickhouse"),
    "checksum": ("charrow",),
    "split_by": ("clickhouse",),
    "token_env": ("flight",),
    "user": ("charrow", "clickhouse", "flight"),
}
_COMPRESSIONS = ("none", "lz4", "zstd")


@dataclass(frozen=True)
class Options:
    """Checked options; secrets are names of environment variables of the executors."""

    url: str
    query: str | None = None
    table: str | None = None
    columns: tuple[str, ...] = ()
    limit: int | None = None
    partitions: int | None = None
    user: str | None = None
    password_env: str | None = None
    token_env: str | None = None
    tls_ca: str | None = None
    encoders: str = "auto"
    compression: str = "none"
    checksum: bool = False
    split_by: str | None = None

    @property
    def scheme(self) -> str:
        """charrow, flight or clickhouse, without `+tls`."""
        return self.url.partition("://")[0].partition("+")[0]

    @property
    def tls(self) -> bool:
        return self.url.partition("://")[0].endswith("+tls")

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Options:
        """Raises VenturiError for what is missing, unknown, or means nothing for this URL."""
        names = {field.name for field in fields(cls)}
        values: dict[str, Any] = {}
        for key, text in texts.items():
            name = key.lower()
            if name not in names:
                raise VenturiError(
                    f"option {key!r} is not known", hint=f"known are {', '.join(sorted(names))}"
                )
            try:
                values[name] = _READ.get(name, str)(text)
            except ValueError as error:
                raise VenturiError(f"option {name!r}: {error}") from None
        url = values.get("url")
        if not url:
            raise VenturiError(
                "option 'url' is missing", hint="charrow://HOST:PORT, flight:// or clickhouse://"
            )
        if url.partition("://")[0] not in _SCHEMES:
            ways = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
            raise VenturiError(f"option 'url': {printable(url)!r} is none of {ways}")
        if user := _checked(url):
            values.setdefault("user", user)
        options = cls(**values)
        for name, schemes in _ONLY.items():
            if name in values and options.scheme not in schemes:
                raise VenturiError(f"option {name!r} means nothing for {options.scheme}://")
        if options.query and options.table:
            raise VenturiError("options 'query' and 'table' exclude each other")
        if not options.query and not options.table:
            raise VenturiError("option 'query' or 'table' is missing: what shall be read?")
        return options

    def secret(self, name: str) -> str | None:
        """The text of the variable that option `name` names. Raises VenturiError where it is not set here."""
        variable = getattr(self, name)
        if variable is None:
            return None
        found = os.environ.get(variable)
        if found is None:
            message = credentials.not_set(variable)
            raise VenturiError(
                f"option {name!r}: {message} in this process",
                hint="executors need it too: spark.executorEnv."
                + (variable if variable in message else "NAME"),
            )
        return found

    def sql(self, columns: tuple[str, ...] = ()) -> str:
        """The query text, with the wanted columns and the limit in it."""
        wanted = columns or self.columns
        if self.query and not wanted and self.limit is None:
            return self.query
        listed = ", ".join('"' + name.replace('"', '""') + '"' for name in wanted) or "*"
        source = self.table or f"({(self.query or '').rstrip().rstrip(';')})"
        return f"SELECT {listed} FROM {source}" + ("" if self.limit is None else f" LIMIT {self.limit}")


def _checked(url: str) -> str | None:
    """The user that a URL names. Raises VenturiError where it cannot be so, or carries a secret."""
    place, mark, settings = url.partition("?")
    clickhouse = url.startswith("clickhouse")
    try:
        # What follows the ? of ClickHouse's are settings of the query.
        check_url(place if clickhouse else url)
    except ValueError as error:
        raise VenturiError(f"option 'url': {error}") from None
    for part in settings.split("&") if clickhouse and mark else ():
        name, equals, _ = part.partition("=")
        if credentials.is_secret(unquote(name)):
            raise VenturiError("option 'url': a secret in it is shown by Spark; use user and password_env")
        if not equals or not name.isidentifier():
            raise VenturiError("option 'url': settings of ClickHouse are written ?NAME=VALUE&NAME=VALUE")
    return unquote(place.partition("://")[2].partition("/")[0].rpartition("@")[0]) or None


# How the text of an option is read. Raises ValueError.


def _number(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _positive(text: str) -> int:
    if (number := _number(text)) < 1:
        raise ValueError(f"{text!r} is less than 1")
    return number


def _encoders(text: str) -> str:
    return text if text == "auto" else str(_positive(text))


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError(f"{text!r} is no list of different columns, as a,b")
    return names


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _compression(text: str) -> str:
    if text not in _COMPRESSIONS:
        raise ValueError(f"{text!r} is none of {', '.join(_COMPRESSIONS)}")
    return text


_READ: dict[str, Callable[[str], Any]] = {
    "columns": _names,
    "password_env": credentials.environment_variable,
    "token_env": credentials.environment_variable,
    "limit": _number,
    "partitions": _positive,
    "encoders": _encoders,
    "compression": _compression,
    "checksum": _switch,
}
