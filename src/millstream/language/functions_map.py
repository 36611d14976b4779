"""Maps and structs.  A key that comes twice, or is NULL, is an error in Spark and makes the whole map NULL here."""

from __future__ import annotations

import pyarrow as pa

from millstream.language.coercion import BOOLEAN, STRING, VOID, common_type, is_array, is_map, is_struct, named
from millstream.language.functions import MAP, Call, Function, Param, coerced, common, custom, simple
from millstream.language.scalar_casts import cast
from millstream.language.scalar_literals import constant_text
from millstream.plan.duckdb_sql import duckdb_type, in_template, text
from millstream.plan.expression import Expr


def _map(call: Call) -> Expr:
    if len(call.args) % 2:
        raise call.refuse("takes keys and values in turn")
    if not call.args:
        return call.gives(pa.map_(STRING, STRING), "CAST(map([], []) AS MAP(VARCHAR, VARCHAR))")
    keys, values = call.args[::2], call.args[1::2]
    key_type, value_type = common(call, keys), common(call, values)
    if is_map(key_type) or key_type == VOID:
        raise call.refuse(f"{named(key_type)} cannot be a key")
    typed = call.with_args([cast(arg, value_type if i % 2 else key_type) for i, arg in enumerate(call.args)])
    key_list = ", ".join(f"{{{i}}}" for i in range(0, len(call.args), 2))
    value_list = ", ".join(f"{{{i}}}" for i in range(1, len(call.args), 2))
    return typed.gives(pa.map_(key_type, value_type), f"TRY(map([{key_list}], [{value_list}]))")


def _entries(map_: pa.MapType) -> pa.ListType:
    return pa.list_(pa.struct([("key", map_.key_type), ("value", map_.item_type)]))


def _map_from_arrays(call: Call) -> Expr:
    for type_ in call.types:
        if not is_array(type_):
            raise call.refuse(f"takes two arrays, found {named(type_)}")
    type_ = pa.map_(call.types[0].value_type, call.types[1].value_type)
    return call.gives(type_, "TRY(map({0}, {1}))")


def _map_from_entries(call: Call) -> Expr:
    entry = call.types[0].value_type if is_array(call.types[0]) else VOID
    if not is_struct(entry) or len(entry) != 2:
        raise call.refuse(f"takes an array of pairs, found {named(call.types[0])}")
    type_ = pa.map_(entry[0].type, entry[1].type)
    body = "CASE WHEN list_count({0}) = len({0}) THEN TRY(map_from_entries({0})) END"
    return call.gives(type_, body)


def _map_concat(call: Call) -> Expr:
    maps = [coerced(call, i, MAP) for i in range(len(call.args))]
    type_ = common(call, maps)
    joined = "map_entries({0})"
    for i in range(1, len(maps)):
        joined = f"list_concat({joined}, map_entries({{{i}}}))"
    missing = " OR ".join(f"{{{i}}} IS NULL" for i in range(len(maps)))
    body = f"CASE WHEN {missing} THEN NULL ELSE TRY(map_from_entries({joined})) END"
    return call.with_args([cast(arg, type_) for arg in maps]).gives(type_, body)


def _map_contains_key(call: Call) -> Expr:
    source = coerced(call, 0, MAP)
    type_ = common_type(source.type.key_type, call.types[1], from_text=False)
    if type_ is None:
        raise call.refuse(f"the keys are {named(source.type.key_type)}, found {named(call.types[1])}")
    typed = call.with_args([cast(source, pa.map_(type_, source.type.item_type)), cast(call.args[1], type_)])
    return typed.gives(BOOLEAN, "CASE WHEN {1} IS NOT NULL THEN list_contains(map_keys({0}), {1}) END")


def _named_struct(call: Call) -> Expr:
    if len(call.args) % 2:
        raise call.refuse("takes names and values in turn")
    names = [constant_text(arg) for arg in call.args[::2]]
    if any(name is None for name in names):
        raise call.refuse("the names must be written in the query")
    if len({name.lower() for name in names if name is not None}) < len(names):
        raise call.refuse("a field comes twice")
    fields = [(name, arg.type) for name, arg in zip(names, call.args[1::2], strict=True)]
    type_ = pa.struct(fields)
    values = ", ".join(f"{in_template(text(str(name)))}: {{{2 * i + 1}}}" for i, name in enumerate(names))
    return call.gives(type_, f"CAST({{{{{values}}}}} AS {in_template(duckdb_type(type_))})")


def _keys(call: Call) -> pa.DataType:
    return pa.list_(call.types[0].key_type)


def _values(call: Call) -> pa.DataType:
    return pa.list_(call.types[0].item_type)


_TEXT = Param("STRING", lambda found: STRING if found in (STRING, VOID) else None)

FUNCTIONS: tuple[Function, ...] = (
    custom("map", least=0, most=None, bind=_map),
    custom("map_from_arrays", least=2, most=2, bind=_map_from_arrays),
    custom("map_from_entries", least=1, most=1, bind=_map_from_entries),
    custom("map_concat", least=1, most=None, bind=_map_concat),
    custom("map_contains_key", least=2, most=2, bind=_map_contains_key),
    simple("map_keys", takes=[MAP], gives=_keys, duckdb="map_keys({0})"),
    simple("map_values", takes=[MAP], gives=_values, duckdb="map_values({0})"),
    simple("map_entries", takes=[MAP], gives=lambda call: _entries(call.types[0]), duckdb="map_entries({0})"),
    custom("named_struct", "struct", least=2, most=None, bind=_named_struct),
    simple("str_to_map", takes=[_TEXT, _TEXT, _TEXT], optional=2, gives=pa.map_(STRING, STRING),
           duckdb=["millstream_str_to_map({0}, ',', ':')", "millstream_str_to_map({0}, {1}, ':')", "millstream_str_to_map({0}, {1}, {2})"]),
)  # fmt: skip
