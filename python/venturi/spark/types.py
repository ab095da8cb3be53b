"""Arrow's types as Spark has them.

Spark knows no unsigned integers, no nanoseconds and no dictionaries. What it can hold without loss is
widened (uint32 -> bigint); nanoseconds are cut to microseconds; the rest is refused by name.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from venturi.common.errors import VenturiError

_DIGITS = 38
"""Of Spark's longest decimal."""
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}
_SPARK = {
    pa.null(): spark.NullType(),
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
}


def spark_schema(schema: Any) -> spark.StructType:
    """An Arrow schema as Spark's type. Raises VenturiError for a column that it has no type for."""
    return spark.StructType([_struct_field(_field(field, field.name)) for field in schema])


def pruned(schema: Any, columns: list[str]) -> Any:
    """The schema with only these columns, in their order. Raises VenturiError for one that is not there."""
    for name in columns:
        if schema.names.count(name) != 1:
            there = ", ".join(schema.names)
            raise VenturiError(f"there is no one column {name!r}; the columns are {there}")
    return pa.schema([schema.field(name) for name in columns])


def _field(field: Any, path: str) -> Any:
    return pa.field(field.name, _type(field.type, path), field.nullable)


def _type(given: Any, path: str) -> Any:
    if given in _SPARK:
        return given
    if given in _WIDER:
        return _WIDER[given]
    if pa.types.is_dictionary(given):
        return _type(given.value_type, path)
    if pa.types.is_fixed_size_binary(given) or given == pa.binary_view():
        return pa.binary()
    if given == pa.string_view():
        return pa.string()
    if pa.types.is_timestamp(given):
        return pa.timestamp("us", given.tz and "UTC")
    if pa.types.is_decimal(given) and given.precision <= _DIGITS and 0 <= given.scale <= given.precision:
        return pa.decimal128(given.precision, given.scale)
    if pa.types.is_duration(given):
        return pa.duration("us")
    if pa.types.is_map(given):
        return pa.map_(_type(given.key_type, f"{path}.key"), _type(given.item_type, f"{path}.value"))
    if pa.types.is_list(given) or pa.types.is_large_list(given) or pa.types.is_fixed_size_list(given):
        return pa.list_(_field(given.value_field, f"{path}.item"))
    if pa.types.is_struct(given):
        return pa.struct([_field(inner, f"{path}.{inner.name}") for inner in given])
    raise VenturiError(
        f"column {path}: Spark has no type for Arrow's {given}",
        hint="leave it out by the option columns, or cast it in the query",
    )


def _struct_field(field: Any) -> spark.StructField:
    return spark.StructField(field.name, _spark_type(field.type), field.nullable)


def _spark_type(given: Any) -> spark.DataType:
    if given in _SPARK:
        return _SPARK[given]
    if pa.types.is_timestamp(given):
        return spark.TimestampType() if given.tz else spark.TimestampNTZType()
    if pa.types.is_decimal(given):
        return spark.DecimalType(given.precision, given.scale)
    if pa.types.is_duration(given):
        return spark.DayTimeIntervalType()
    if pa.types.is_map(given):
        return spark.MapType(_spark_type(given.key_type), _spark_type(given.item_type))
    if pa.types.is_list(given):
        return spark.ArrayType(_spark_type(given.value_type), given.value_field.nullable)
    return spark.StructType([_struct_field(inner) for inner in given])
