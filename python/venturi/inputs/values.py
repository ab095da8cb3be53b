"""Tables for a server of charrow://: Arrow IPC files whose columns hold values, no dictionaries.

The protocol sends a schema and record batches, and nothing that a dictionary could travel in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from venturi.common.errors import ScenarioError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["unpacked"]


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
    for is_list, made in (
        (pa.types.is_large_list, pa.large_list),
        (pa.types.is_list, pa.list_),
    ):
        if is_list(kind):
            return made(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)), kind.list_size)
    return kind
