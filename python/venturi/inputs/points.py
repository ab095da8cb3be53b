"""Points of a user's file: columns of time, tags and values, sorted by time before the clock.

Tables for a server of charrow://: Arrow IPC files whose columns hold values, no dictionaries.

The protocol sends a schema and record batches, and nothing that a dictionary could travel in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from venturi.common.errors import ScenarioError
from venturi.common.texts import listed, similar

if TYPE_CHECKING:
    import pyarrow as pa

# Integers as times: the unit by their size, for the years 1973 to 2286.
_UNITS = ((10**17, "ns"), (10**14, "us"), (10**11, "ms"), (0, "s"))


@dataclass(frozen=True)
class Columns:
    """Which columns are what. `values` may be empty: all that hold numbers."""

    time: str | None
    tags: tuple[str, ...]
    values: tuple[str, ...]


def arranged(label: str, table: pa.Table, columns: Columns) -> tuple[pa.Table, Columns]:
    """The table, sorted by time, with a time (ns, UTC), tags as text and values as doubles or int64; and the
    columns, all of them named. Raises ScenarioError for a column that is missing or of the wrong kind."""
    import pyarrow as pa

    names = table.column_names
    time = columns.time or _the_time(label, table)
    for flag, wanted in (("--time", (time,)), ("--tags", columns.tags), ("--values", columns.values)):
        for name in wanted:
            if name not in names:
                raise ScenarioError(f"{flag}: {label} has no column {name}{similar(name, names)}")
    used = {time, *columns.tags}
    values = columns.values or tuple(
        f.name for f in table.schema if f.name not in used and _is_number(f.type)
    )
    if not values:
        raise ScenarioError(
            f"{label}: no column but time and tags holds numbers", hint="name them: --values a,b"
        )
    for name in values:
        if name in used:
            raise ScenarioError(f"--values: {name} is the {'time' if name == time else 'tag'} already")
    made: dict[str, Any] = {time: _times(label, time, table.column(time))}
    for name in columns.tags:
        made[name] = _tag(label, name, table.column(name))
    for name in values:
        made[name] = _value(label, name, table.column(name))
    found = pa.table(made)
    return found.sort_by([(time, "ascending")]), Columns(time, columns.tags, values)


def _the_time(label: str, table: pa.Table) -> str:
    from pyarrow import types

    found = [f.name for f in table.schema if types.is_timestamp(f.type) or types.is_date(f.type)]
    if len(found) == 1:
        return str(found[0])
    which = f"several ({listed(found)})" if found else "none"
    raise ScenarioError(
        f"{label}: which column is the time? Of times it has {which}", hint="name it: --time ts"
    )


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _times(label: str, name: str, column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    kind = column.type
    if column.null_count:
        raise ScenarioError(f"--time: {name} of {label} has nulls; a point has a time")
    if types.is_integer(kind):
        most = pc.max(column).as_py()
        unit = next(unit for least, unit in _UNITS if most >= least or least == 0)
        column = column.cast(pa.int64()).cast(pa.timestamp(unit))
    elif types.is_string(kind) or types.is_large_string(kind):
        try:
            column = column.cast(pa.timestamp("ns"))
        except pa.ArrowInvalid as error:
            raise ScenarioError(
                f"--time: {name} of {label} is text that is no time: {_first(error)}"
            ) from None
    elif not (types.is_timestamp(kind) or types.is_date(kind)):
        raise ScenarioError(f"--time: {name} of {label} is {kind}, which is no time")
    try:
        return column.cast(pa.timestamp("ns")).cast(pa.timestamp("ns", "UTC"))
    except pa.ArrowInvalid as error:
        raise ScenarioError(f"--time: {name} of {label}: {_first(error)}") from None


def _tag(label: str, name: str, column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if types.is_nested(kind) or types.is_floating(kind):
        raise ScenarioError(f"--tags: {name} of {label} is {kind}; a tag is a text, or a whole number")
    if column.null_count:
        raise ScenarioError(f"--tags: {name} of {label} has nulls; every series needs all of its tags")
    texts = column.cast(kind).cast(pa.string())
    # What separates tags from each other on every wire.
    bad = pc.filter(texts, pc.match_substring_regex(texts, r"[\s=,|]|^$"))
    if len(bad):
        raise ScenarioError(
            f"--tags: {name} of {label} holds {bad[0].as_py()!r}; a tag has no blanks, commas, = or |, "
            "and is not empty"
        )
    return texts.combine_chunks() if texts.num_chunks != 1 else texts


def _value(label: str, name: str, column: Any) -> Any:
    import pyarrow as pa
    from pyarrow import types

    if not _is_number(column.type):
        raise ScenarioError(f"--values: {name} of {label} is {column.type}, which is no number")
    try:
        doubles = column.cast(pa.float64())
        # An integer that a double holds fits an int64; protocols that know integers write it as one.
        return column.cast(pa.int64()) if types.is_integer(column.type) else doubles
    except pa.ArrowInvalid as error:
        raise ScenarioError(f"--values: {name} of {label} does not fit a double: {_first(error)}") from None


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def unpacked(label: str, table: pa.Table) -> pa.Table:
    """The table with the values of its dictionary columns, also within lists and structs. Raises
    ScenarioError naming a column that cannot be unpacked."""
    import pyarrow as pa

    columns, fields = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        plain = _plain(field.type)
        if plain != field.type:
            try:
                column = column.cast(plain)
            except pa.ArrowException as error:
                reason = str(error).strip().splitlines()[0]
                raise ScenarioError(
                    f"{label}: column {field.name} has a dictionary that cannot be unpacked: {reason}"
                ) from None
        columns.append(column)
        fields.append(field.with_type(plain))
    return pa.table(columns, schema=pa.schema(fields, metadata=table.schema.metadata))


def _plain(kind: Any) -> Any:
    """The type with values in place of every dictionary in it."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct(
            [kind.field(i).with_type(_plain(kind.field(i).type)) for i in range(kind.num_fields)]
        )
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), kind.item_field.with_type(_plain(kind.item_type)))
    for is_list, made in ((pa.types.is_large_list, pa.large_list), (pa.types.is_list, pa.list_)):
        if is_list(kind):
            return made(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)), kind.list_size)
    return kind
