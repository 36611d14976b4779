"""Arrays.  Spark's NULL rules: a missing element makes "is it in there?" unknown, and NULL equals NULL when a set is built."""

from __future__ import annotations

import pyarrow as pa

from millstream.core.errors import NotSupported
from millstream.language.coercion import BIGINT, BINARY, BOOLEAN, INT, STRING, VOID, common_type, is_array, is_integral, is_map, named
from millstream.language.functions import ARRAY, NUMERIC, Call, Function, Param, coerced, common, custom, placeholders, simple
from millstream.language.scalar_casts import cast
from millstream.language.scalar_literals import constant_truth
from millstream.language.scalar_predicates import check_ordered
from millstream.plan.duckdb_sql import duckdb_type
from millstream.plan.expression import Expr

_INT = Param("INT", lambda found: INT if NUMERIC.accept(found) is not None else None)


def element(call: Call) -> pa.DataType:
    """The type of the first argument's elements."""
    return call.args[0].type.value_type


def _array(call: Call) -> Expr:
    type_ = common(call, call.args) if call.args else VOID
    typed = call.with_args([cast(arg, type_) for arg in call.args])
    if not call.args:
        return typed.gives(pa.list_(VOID), "CAST([] AS INTEGER[])")
    return typed.gives(pa.list_(type_), f"[{placeholders(len(call.args))}]")


def _with_element(call: Call) -> Call:
    """(array, element, ...) with both sides in one element type."""
    array = coerced(call, 0, ARRAY)
    type_ = common_type(array.type.value_type, call.types[1], from_text=False)
    if type_ is None:
        raise call.refuse(f"an {named(array.type)} has no {named(call.types[1])}")
    return call.with_args([cast(array, pa.list_(type_)), cast(call.args[1], type_), *call.args[2:]])


def _with_array(call: Call) -> Call:
    """(array, array) with both in one element type."""
    left, right = coerced(call, 0, ARRAY), coerced(call, 1, ARRAY)
    type_ = common_type(left.type, right.type, from_text=False)
    if type_ is None:
        raise call.refuse(f"{named(left.type)} and {named(right.type)} hold different things")
    return call.with_args([cast(left, type_), cast(right, type_)])


def _about_element(name: str, type_: pa.DataType | None, duckdb: str) -> Function:
    """A function of an array and an element; None: the array's own type."""

    def bind(call: Call) -> Expr:
        typed = _with_element(call)
        return typed.gives(type_ if type_ is not None else typed.args[0].type, duckdb)

    return custom(name, least=2, most=2, bind=bind)


def _about_arrays(name: str, type_: pa.DataType | None, duckdb: str) -> Function:
    def bind(call: Call) -> Expr:
        typed = _with_array(call)
        return typed.gives(type_ if type_ is not None else typed.args[0].type, duckdb)

    return custom(name, least=2, most=2, bind=bind)


def _array_insert(call: Call) -> Expr:
    array = coerced(call, 0, ARRAY)
    type_ = common_type(array.type.value_type, call.types[2], from_text=False)
    if type_ is None:
        raise call.refuse(f"an {named(array.type)} has no {named(call.types[2])}")
    typed = call.with_args([cast(array, pa.list_(type_)), coerced(call, 1, _INT), cast(call.args[2], type_)])
    return typed.gives(pa.list_(type_), "millstream_array_insert({0}, {1}, {2})")


def _size(call: Call) -> Expr:
    if not is_array(call.types[0]) and not is_map(call.types[0]):
        if call.types[0] != VOID:
            raise call.refuse(f"takes an array or a map, found {named(call.types[0])}")
        return call.gives(INT, "CAST(NULL AS INTEGER)")
    return call.gives(INT, "CAST(len({0}) AS INTEGER)" if is_array(call.types[0]) else "CAST(cardinality({0}) AS INTEGER)")


def _element_at(call: Call) -> Expr:
    """element_at(array, i) counts from 1, or from the end; element_at(map, key)."""
    source, key = call.args
    if is_map(source.type):
        type_ = common_type(source.type.key_type, key.type, from_text=False)
        if type_ is None:
            raise call.refuse(f"the keys are {named(source.type.key_type)}, found {named(key.type)}")
        typed = call.with_args([cast(source, pa.map_(type_, source.type.item_type)), cast(key, type_)])
        return typed.gives(source.type.item_type, "map_extract_value({0}, {1})")
    if not is_array(source.type):
        raise call.refuse(f"takes an array or a map, found {named(source.type)}")
    if not is_integral(key.type) or key.type == BIGINT:
        raise call.refuse(f"the index must be INT, found {named(key.type)}")
    return call.gives(source.type.value_type, "list_extract({0}, {1})")


def _get(call: Call) -> Expr:
    """get(array, i) counts from 0; what is not there is NULL."""
    typed = call.with_args([coerced(call, 0, ARRAY), coerced(call, 1, _INT)])
    return typed.gives(element(typed), "CASE WHEN {1} >= 0 THEN list_extract({0}, CAST({1} AS BIGINT) + 1) END")


def _sort(call: Call) -> Expr:
    array = coerced(call, 0, ARRAY)
    check_ordered(array.type.value_type)
    if call.name == "array_sort":
        if len(call.args) > 1:
            raise NotSupported("array_sort with a comparison is not supported", hint="Use sort_array(array, ascending).")
        return call.with_args([array]).gives(array.type, "list_sort({0}, 'ASC', 'NULLS LAST')")
    ascending = constant_truth(call.args[1]) if len(call.args) > 1 else True
    if ascending is None:
        raise NotSupported("sort_array: the direction must be TRUE or FALSE")
    order = "'ASC', 'NULLS FIRST'" if ascending else "'DESC', 'NULLS LAST'"
    return call.with_args([array, *call.args[1:]]).gives(array.type, f"list_sort({{0}}, {order})")


def _extreme(call: Call) -> Expr:
    array = coerced(call, 0, ARRAY)
    check_ordered(array.type.value_type)
    return call.with_args([array]).gives(array.type.value_type, f"list_{call.name.removeprefix('array_')}({{0}})")


def _flatten(call: Call) -> Expr:
    array = call.args[0]
    if not is_array(array.type) or not is_array(array.type.value_type):
        raise call.refuse(f"takes an array of arrays, found {named(array.type)}")
    return call.gives(array.type.value_type, "CASE WHEN list_count({0}) = len({0}) THEN coalesce(flatten({0}), []) END")


def _array_join(call: Call) -> Expr:
    array = cast(coerced(call, 0, ARRAY), pa.list_(STRING))
    typed = call.with_args([array, *(cast(arg, STRING) for arg in call.args[1:])])
    if len(call.args) == 2:
        kept = 'list_filter({0}, lambda "x": "x" IS NOT NULL)'
    else:
        kept = 'list_transform({0}, lambda "x": coalesce("x", {2}))'
    missing = " OR ".join(f"{{{i}}} IS NULL" for i in range(len(call.args)))
    return typed.gives(STRING, f"CASE WHEN {missing} THEN NULL ELSE millstream_join({kept}, {{1}}) END")


def _sequence(call: Call) -> Expr:
    if not all(is_integral(type_) or type_ == VOID for type_ in call.types):
        raise NotSupported("sequence is available for whole numbers", hint="For dates: transform(sequence(0, n), i -> date_add(d, i)).")
    type_ = common(call, call.args[:2])
    typed = call.with_args([*(cast(arg, type_) for arg in call.args[:2]), *(cast(arg, type_) for arg in call.args[2:])])
    step = "{2}" if len(call.args) == 3 else "CASE WHEN {0} <= {1} THEN 1 ELSE -1 END"
    body = f"millstream_sequence(CAST({{0}} AS BIGINT), CAST({{1}} AS BIGINT), CAST({step} AS BIGINT))"
    return typed.gives(pa.list_(type_), f"CAST({body} AS {duckdb_type(type_)}[])")


def _slice(call: Call) -> Expr:
    typed = call.with_args([coerced(call, 0, ARRAY), coerced(call, 1, _INT), coerced(call, 2, _INT)])
    return typed.gives(typed.args[0].type, "millstream_slice({0}, {1}, {2})")


def _array_repeat(call: Call) -> Expr:
    typed = call.with_args([call.args[0], coerced(call, 1, _INT)])
    type_ = pa.list_(call.types[0])
    body = "list_transform(range(greatest({1}, 0)), lambda i: {0})"
    return typed.gives(type_, f"CASE WHEN {{1}} IS NOT NULL THEN CAST({body} AS {duckdb_type(type_)}) END")


def _arrays_zip(call: Call) -> Expr:
    arrays = [coerced(call, i, ARRAY) for i in range(len(call.args))]
    names = [name if name is not None else str(i) for i, name in enumerate(call.names)]
    type_ = pa.list_(pa.struct([(name, array.type.value_type) for name, array in zip(names, arrays, strict=True)]))
    if any(array.type.value_type == VOID for array in arrays):
        raise NotSupported("arrays_zip of an empty array is not supported")
    missing = " OR ".join(f"{{{i}}} IS NULL" for i in range(len(arrays)))
    body = f"CAST(list_zip({placeholders(len(arrays))}) AS {duckdb_type(type_)})"
    return call.with_args(arrays).gives(type_, f"CASE WHEN {missing} THEN NULL ELSE {body} END")


def _reverse(call: Call) -> Expr:
    if is_array(call.types[0]):
        return call.gives(call.types[0], "list_reverse({0})")
    if call.types[0] == BINARY:
        raise NotSupported("reverse of BINARY is not supported")
    text = Param("STRING or an array", lambda found: STRING if not is_map(found) else None)
    return call.with_args([coerced(call, 0, text)]).gives(STRING, "reverse({0})")


_CONTAINS = (
    "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN list_contains({0}, {1}) THEN TRUE"
    " WHEN list_count({0}) < len({0}) THEN NULL ELSE FALSE END"
)
_OVERLAP = (
    "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN list_has_any({0}, {1}) THEN TRUE"
    " WHEN len({0}) > 0 AND len({1}) > 0 AND (list_count({0}) < len({0}) OR list_count({1}) < len({1})) THEN NULL ELSE FALSE END"
)

FUNCTIONS: tuple[Function, ...] = (
    custom("array", least=0, most=None, bind=_array),
    _about_element("array_contains", BOOLEAN, _CONTAINS),
    _about_element("array_position", BIGINT,
                   "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL ELSE CAST(coalesce(list_position({0}, {1}), 0) AS BIGINT) END"),
    _about_element("array_append", None, "CASE WHEN {0} IS NOT NULL THEN list_append({0}, {1}) END"),
    _about_element("array_prepend", None, "CASE WHEN {0} IS NOT NULL THEN list_prepend({1}, {0}) END"),
    _about_element("array_remove", None, 'CASE WHEN {1} IS NOT NULL THEN list_filter({0}, lambda "x": "x" IS DISTINCT FROM {1}) END'),
    custom("array_insert", least=3, most=3, bind=_array_insert),
    _about_arrays("array_union", None, "millstream_array_union({0}, {1})"),
    _about_arrays("array_except", None, "millstream_array_except({0}, {1})"),
    _about_arrays("array_intersect", None, "millstream_array_intersect({0}, {1})"),
    _about_arrays("arrays_overlap", BOOLEAN, _OVERLAP),
    simple("array_distinct", takes=[ARRAY], gives=lambda call: call.types[0], duckdb="millstream_array_distinct({0})"),
    simple("array_compact", takes=[ARRAY], gives=lambda call: call.types[0], duckdb='list_filter({0}, lambda "x": "x" IS NOT NULL)'),
    simple("array_size", takes=[ARRAY], gives=INT, duckdb="CAST(len({0}) AS INTEGER)"),
    custom("array_max", "array_min", least=1, most=1, bind=_extreme),
    custom("array_join", least=2, most=3, bind=_array_join),
    custom("array_repeat", least=2, most=2, bind=_array_repeat),
    custom("arrays_zip", least=1, most=None, bind=_arrays_zip),
    custom("size", "cardinality", least=1, most=1, bind=_size),
    custom("element_at", "try_element_at", least=2, most=2, bind=_element_at),
    custom("get", least=2, most=2, bind=_get),
    custom("sort_array", least=1, most=2, bind=_sort),
    custom("array_sort", least=1, most=2, bind=_sort),
    custom("flatten", least=1, most=1, bind=_flatten),
    custom("reverse", least=1, most=1, bind=_reverse),
    custom("sequence", least=2, most=3, bind=_sequence),
    custom("slice", least=3, most=3, bind=_slice),
)  # fmt: skip
