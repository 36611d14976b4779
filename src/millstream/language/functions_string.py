"""String functions.  Positions count from 1 and count characters, not bytes; a negative position counts from the end."""

from __future__ import annotations

import re

import pyarrow as pa

from millstream.core.errors import NotSupported
from millstream.language.coercion import BINARY, BOOLEAN, INT, STRING, VOID, common_type, is_array, is_atomic, is_float, is_integral
from millstream.language.functions import NUMERIC, Call, Function, Param, coerced, common, custom, simple
from millstream.language.scalar_casts import cast, cast_template
from millstream.language.scalar_literals import constant_text, string
from millstream.plan.duckdb_sql import in_template, text
from millstream.plan.expression import Expr

_BYTES_OR_TEXT = Param(
    "STRING or BINARY", lambda found: found if found in (STRING, BINARY) else STRING if is_atomic(found) or found == VOID else None
)
_BYTES = Param("BINARY", lambda found: BINARY if found in (STRING, BINARY, VOID) else None)


def _by_kind(call: Call, on_text: str, on_bytes: str, type_: pa.DataType) -> Expr:
    """A function with one template for strings and another for bytes."""
    arg = coerced(call, 0, _BYTES_OR_TEXT)
    return call.with_args([arg, *call.args[1:]]).gives(type_, on_bytes if arg.type == BINARY else on_text)


def _length(call: Call) -> Expr:
    return _by_kind(call, "CAST(length({0}) AS INTEGER)", "CAST(octet_length({0}) AS INTEGER)", INT)


def _octet_length(call: Call) -> Expr:
    return _by_kind(call, "CAST(strlen({0}) AS INTEGER)", "CAST(octet_length({0}) AS INTEGER)", INT)


def _bit_length(call: Call) -> Expr:
    return _by_kind(call, "CAST(strlen({0}) * 8 AS INTEGER)", "CAST(octet_length({0}) * 8 AS INTEGER)", INT)


def _part_of_text(call: Call, wanted: str) -> Expr:
    """contains, startswith, endswith: both strings."""
    typed = call.with_args([coerced(call, i, Param("STRING", _TEXT.accept)) for i in range(2)])
    return typed.gives(BOOLEAN, f"{wanted}({{0}}, {{1}})")


_TEXT = Param("STRING", lambda found: STRING if is_atomic(found) or found == VOID else None)


def _substring(call: Call) -> Expr:
    arg = coerced(call, 0, _BYTES_OR_TEXT)
    if arg.type == BINARY:
        raise NotSupported("substring of BINARY is not supported", hint="Decode it to STRING first.")
    typed = call.with_args([arg, *(coerced(call, i, _INT) for i in range(1, len(call.args)))])
    start = "(CASE WHEN {1} = 0 THEN 1 ELSE {1} END)"
    if len(typed.args) == 2:
        return typed.gives(STRING, f"substring({{0}}, {start})")
    return typed.gives(STRING, f"CASE WHEN {{2}} <= 0 THEN substring({{0}}, 1, 0) ELSE substring({{0}}, {start}, {{2}}) END")


_INT = Param("INT", lambda found: INT if NUMERIC.accept(found) is not None else None)


def _concat(call: Call) -> Expr:
    if not call.args:
        return string("")
    if any(is_array(type_) for type_ in call.types):
        from_arrays = call.args
        item = from_arrays[0].type
        for arg in from_arrays[1:]:
            item = _joined_array(call, item, arg.type)
        typed = call.with_args([cast(arg, item) for arg in call.args])
        return typed.gives(item, _array_concat(len(call.args)))
    type_ = BINARY if all(found == BINARY for found in call.types) else STRING
    typed = call.with_args([cast(coerced(call, i, _BYTES_OR_TEXT), type_) for i in range(len(call.args))])
    return typed.gives(type_, "(" + " || ".join(f"{{{i}}}" for i in range(len(call.args))) + ")")


def _joined_array(call: Call, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    type_ = common_type(left, right) if is_array(left) and is_array(right) else None
    if type_ is None:
        raise call.refuse("the arguments must all be arrays, or all be strings")
    return type_


def _array_concat(count: int) -> str:
    missing = " OR ".join(f"{{{i}}} IS NULL" for i in range(count))
    result = "{0}"
    for i in range(1, count):
        result = f"list_concat({result}, {{{i}}})"
    return f"CASE WHEN {missing} THEN NULL ELSE {result} END"


def _concat_ws(call: Call) -> Expr:
    args: list[Expr] = [coerced(call, 0, _TEXT)]
    pieces: list[str] = []
    for i, arg in enumerate(call.args[1:], start=1):
        if is_array(arg.type):
            args.append(cast(arg, pa.list_(STRING)))
            pieces.append(f"coalesce({{{i}}}, [])")
        else:
            args.append(coerced(call, i, _TEXT))
            pieces.append(f"[{{{i}}}]")
    if not pieces:
        return call.with_args(args).gives(STRING, "CASE WHEN {0} IS NOT NULL THEN '' END")
    joined = pieces[0]
    for piece in pieces[1:]:
        joined = f"list_concat({joined}, {piece})"
    some = f'list_filter({joined}, lambda "x": "x" IS NOT NULL)'
    return call.with_args(args).gives(STRING, f"CASE WHEN {{0}} IS NOT NULL THEN millstream_join({some}, {{0}}) END")


def _pad(call: Call) -> Expr:
    typed = call.with_args([coerced(call, 0, _TEXT), coerced(call, 1, _INT), *(coerced(call, i, _TEXT) for i in range(2, len(call.args)))])
    pad = "{2}" if len(typed.args) == 3 else "' '"
    size = "greatest({1}, 0)"
    body = f"CASE WHEN {pad} = '' THEN left({{0}}, {size}) ELSE {call.name}({{0}}, {size}, {pad}) END"
    return typed.gives(STRING, f"CASE WHEN {{1}} IS NOT NULL THEN {body} END")


def _trim(call: Call) -> Expr:
    """trim(s), trim(characters, s)."""
    word = {"trim": "trim", "ltrim": "ltrim", "rtrim": "rtrim"}[call.name]
    typed = call.with_args([coerced(call, i, _TEXT) for i in range(len(call.args))])
    return typed.gives(STRING, f"{word}({{0}}, ' ')" if len(typed.args) == 1 else f"{word}({{1}}, {{0}})")


def _elt(call: Call) -> Expr:
    """elt(n, first, second, ...)."""
    count = len(call.args) - 1
    typed = call.with_args([coerced(call, 0, _INT), *(coerced(call, i, _TEXT) for i in range(1, count + 1))])
    branches = " ".join(f"WHEN {i} THEN {{{i}}}" for i in range(1, count + 1))
    return typed.gives(STRING, f"CASE {{0}} {branches} END")


def _left(call: Call) -> Expr:
    typed = call.with_args([coerced(call, 0, _TEXT), coerced(call, 1, _INT)])
    return typed.gives(STRING, f"{call.name}({{0}}, greatest({{1}}, 0) + 0 * {{1}})")


def _encode(call: Call) -> Expr:
    charset = (constant_text(call.args[1]) or "").upper()
    if charset not in ("UTF-8", "US-ASCII", "UTF8"):
        raise NotSupported("the character set must be 'UTF-8', written in the query")
    return call.with_args([coerced(call, 0, _TEXT), call.args[1]]).gives(BINARY, "encode({0})")


def _decode(call: Call) -> Expr:
    """decode(bytes, charset), or decode(value, search, result, ..., default)."""
    if len(call.args) == 2:
        charset = (constant_text(call.args[1]) or "").upper()
        if charset not in ("UTF-8", "UTF8"):
            raise NotSupported("the character set must be 'UTF-8', written in the query")
        return call.with_args([coerced(call, 0, _BYTES), call.args[1]]).gives(STRING, "TRY(decode({0}))")
    subject, rest = call.args[0], list(call.args[1:])
    default = rest.pop() if len(rest) % 2 else None
    searched = common(call, [subject, *rest[::2]])
    # without a default Spark adds a NULL that is a string
    type_ = common(call, [*rest[1::2], default if default is not None else string("")])
    typed = [cast(subject, searched)]
    branches = ""
    for i in range(0, len(rest), 2):
        typed += [cast(rest[i], searched), cast(rest[i + 1], type_)]
        branches += f" WHEN {{0}} IS NOT DISTINCT FROM {{{i + 1}}} THEN {{{i + 2}}}"
    if default is not None:
        typed.append(cast(default, type_))
        branches += f" ELSE {{{len(typed) - 1}}}"
    return call.with_args(typed).gives(type_, f"CASE{branches} END")


_CONVERSION = re.compile(r"%(?:%|([-0,+ ]*)(\d*)(?:\.(\d+))?([sdfxX]))")


def _format_string(call: Call) -> Expr:
    """printf with the conversions s, d, f, x and %% of a format that is written in the query."""
    pattern = constant_text(call.args[0])
    if pattern is None:
        raise NotSupported(f"the format of {call.name} must be written in the query")
    pieces, position, used, args = [], 0, 0, [call.args[0]]
    for match in _CONVERSION.finditer(pattern):
        pieces.append(in_template(text(pattern[position : match.start()])))
        position = match.end()
        if match[0] == "%%":
            pieces.append("'%'")
            continue
        used += 1
        if used >= len(call.args):
            raise call.refuse(f"the format asks for more than {len(call.args) - 1} values")
        pieces.append(_converted(call, args, used, match))
    pieces.append(in_template(text(pattern[position:])))
    if "%" in _CONVERSION.sub("", pattern):
        raise NotSupported(f"{call.name} knows the conversions %s, %d, %f, %x and %%")
    return call.with_args(args).gives(STRING, "(" + " || ".join(pieces) + ")")


def _converted(call: Call, args: list[Expr], position: int, match: re.Match[str]) -> str:
    arg, (flags, width, precision, kind) = call.args[position], match.groups()
    index = len(args)
    if kind == "s":
        args.append(cast(arg, STRING))
        return _padded(f"coalesce({{{index}}}, 'null')", flags, width, precision)
    if kind == "f" and is_float(arg.type) and not set(flags) - set("-0+ "):
        args.append(arg)
        spec = f"%{flags}{width}.{precision or 6}f"
    elif kind in "dxX" and is_integral(arg.type) and not precision and not set(flags) - set("-0+ "):
        if kind in "xX":
            raise NotSupported(f"{call.name} knows the conversions %s, %d and %f", hint="Use hex(...) with %s.")
        args.append(arg)
        spec = f"%{flags}{width}d"
    else:
        raise call.refuse(f"cannot format argument {position + 1} with {match[0]}")
    printed = f"printf({text(spec)}, {{{index}}})"
    if kind == "f":
        odd = _padded(cast_template(arg.type, STRING).replace("{0}", f"{{{index}}}"), flags, width, None)
        printed = f"CASE WHEN isfinite({{{index}}}) THEN {printed} ELSE {odd} END"
    missing = _padded("'null'", flags, width, precision)
    return f"CASE WHEN {{{index}}} IS NULL THEN {missing} ELSE {printed} END"


def _padded(shown: str, flags: str, width: str, precision: str | None) -> str:
    """A string in a format: cut to the precision, filled up to the width."""
    if precision:
        shown = f"left({shown}, {precision})"
    if width.strip("0"):
        pad = "rpad" if "-" in flags else "lpad"
        shown = f"CASE WHEN length({shown}) >= {width} THEN {shown} ELSE {pad}({shown}, {width}, ' ') END"
    return shown


def _split_part(call: Call) -> Expr:
    typed = call.with_args([coerced(call, 0, _TEXT), coerced(call, 1, _TEXT), coerced(call, 2, _INT)])
    whole = "CASE WHEN {2} IN (1, -1) THEN {0} ELSE '' END"
    return typed.gives(STRING, f"CASE WHEN {{2}} = 0 THEN NULL WHEN {{1}} = '' THEN {whole} ELSE split_part({{0}}, {{1}}, {{2}}) END")


def _mask(call: Call) -> Expr:
    """Each class of characters becomes one character; NULL leaves the class as it is."""
    classes = (r"\p{Lu}", r"\p{Ll}", r"\d", r"[^\p{Lu}\p{Ll}\d]")
    first_others = (3, 0, 1, 2)
    defaults: tuple[str | None, ...] = ("X", "x", "n", None)
    chosen: list[str | None] = []
    for i in range(4):
        arg = call.args[i + 1] if len(call.args) > i + 1 else None
        value = defaults[i] if arg is None else None if arg.type == VOID else constant_text(arg)
        if arg is not None and arg.type != VOID and (value is None or len(value) != 1):
            raise call.refuse("the masking characters must be single characters written in the query")
        chosen.append(value)
    # first to private characters, so that what one class became is not masked again by the next
    body = "{0}"
    for i in first_others:
        if chosen[i] is not None:
            body = f"regexp_replace({body}, {text(in_template(classes[i]))}, chr({0xE000 + i}), 'g')"
    for i, value in enumerate(chosen):
        if value is not None:
            body = f"replace({body}, chr({0xE000 + i}), {text(in_template(value))})"
    return call.with_args([coerced(call, 0, _TEXT), *call.args[1:]]).gives(STRING, body)


def _text(*names: str, duckdb: str, args: int = 1) -> Function:
    """STRING in, STRING out."""
    return simple(*names, takes=[_TEXT] * args, gives=STRING, duckdb=duckdb)


_LOCATE = (
    "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN {2} <= 0 THEN 0"
    " ELSE CAST(coalesce(nullif(strpos(substring({1}, {2}), {0}), 0) + {2} - 1, 0) AS INTEGER) END"
)

FUNCTIONS: tuple[Function, ...] = (
    _text("upper", "ucase", duckdb="upper(replace({0}, 'ß', 'SS'))"),
    _text("lower", "lcase", duckdb="lower({0})"),
    _text("initcap", duckdb="millstream_initcap({0})"),
    custom("length", "char_length", "character_length", "len", least=1, most=1, bind=_length),
    custom("octet_length", least=1, most=1, bind=_octet_length),
    custom("bit_length", least=1, most=1, bind=_bit_length),
    simple("ascii", takes=[_TEXT], gives=INT, duckdb="CASE WHEN {0} = '' THEN 0 ELSE unicode({0}) END"),
    simple("chr", "char", takes=[Param("BIGINT", lambda t: pa.int64() if NUMERIC.accept(t) is not None else None)], gives=STRING,
           duckdb="CASE WHEN {0} < 0 THEN '' ELSE chr(CAST({0} % 256 AS INTEGER)) END"),
    simple("base64", takes=[_BYTES], gives=STRING, duckdb="millstream_base64({0})"),
    simple("unbase64", takes=[STRING], gives=BINARY, duckdb="TRY(from_base64(regexp_replace({0}, '[^A-Za-z0-9+/=]', '', 'g')))"),
    custom("concat", least=0, most=None, bind=_concat),
    custom("concat_ws", least=1, most=None, bind=_concat_ws),
    custom("contains", least=2, most=2, bind=lambda call: _part_of_text(call, "contains")),
    custom("startswith", least=2, most=2, bind=lambda call: _part_of_text(call, "starts_with")),
    custom("endswith", least=2, most=2, bind=lambda call: _part_of_text(call, "ends_with")),
    custom("elt", least=2, most=None, bind=_elt),
    custom("encode", least=2, most=2, bind=_encode),
    custom("decode", least=2, most=None, bind=_decode),
    custom("format_string", "printf", least=1, most=None, bind=_format_string),
    simple("find_in_set", takes=[_TEXT, _TEXT], gives=INT,
           duckdb="CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN contains({0}, ',') THEN 0"
                  " ELSE CAST(coalesce(list_position(string_split({1}, ','), {0}), 0) AS INTEGER) END"),
    simple("instr", takes=[_TEXT, _TEXT], gives=INT, duckdb="CAST(strpos({0}, {1}) AS INTEGER)"),
    simple("locate", "position", takes=[_TEXT, _TEXT, _INT], optional=1, gives=INT, duckdb=["CAST(strpos({1}, {0}) AS INTEGER)", _LOCATE]),
    custom("left", "right", least=2, most=2, bind=_left),
    custom("lpad", "rpad", least=2, most=3, bind=_pad),
    custom("trim", "ltrim", "rtrim", least=1, most=2, bind=_trim),
    simple("btrim", takes=[_TEXT, _TEXT], optional=1, gives=STRING, duckdb=["trim({0}, ' ')", "trim({0}, {1})"]),
    custom("mask", least=1, most=5, bind=_mask),
    simple("overlay", takes=[_TEXT, _TEXT, _INT, _INT], optional=1, gives=STRING,
           duckdb=["millstream_overlay({0}, {1}, {2}, CAST(length({1}) AS INTEGER))",
                   "millstream_overlay({0}, {1}, {2}, CASE WHEN {3} < 0 THEN CAST(length({1}) AS INTEGER) ELSE {3} END)"]),
    simple("repeat", takes=[_TEXT, _INT], gives=STRING, duckdb="repeat({0}, greatest({1}, 0) + 0 * {1})"),
    simple("replace", takes=[_TEXT, _TEXT, _TEXT], optional=1, gives=STRING, duckdb=["replace({0}, {1}, '')", "replace({0}, {1}, {2})"]),
    simple("space", takes=[_INT], gives=STRING, duckdb="repeat(' ', greatest({0}, 0) + 0 * {0})"),
    custom("split_part", least=3, most=3, bind=_split_part),
    custom("substring", "substr", least=2, most=3, bind=_substring),
    simple("substring_index", takes=[_TEXT, _TEXT, _INT], gives=STRING, duckdb="millstream_substring_index({0}, {1}, {2})"),
    simple("translate", takes=[_TEXT, _TEXT, _TEXT], gives=STRING, duckdb="translate({0}, {1}, {2})"),
    _text("quote", duckdb="millstream_quote({0})"),
    _text("url_encode", duckdb="millstream_url_encode({0})"),
    _text("url_decode", "try_url_decode", duckdb="millstream_url_decode({0})"),
)  # fmt: skip
