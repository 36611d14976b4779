"""The name Spark gives to a column that has no alias: `sum(size)`, `(a + b)`, `count(1)`, `CAST((a + 1) AS INT)`.

Works on the tree as parsed, before types are known.  What the tree would not tell is noted by the parser:
the word of a special form (SUBSTR and SUBSTRING are one node), the suffix of a number, and whether a cast is a literal.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from millstream.language.literal_names import instant_name, interval_name, number_name
from millstream.language.nodes import OverFunction

_FORM, _SUFFIX, _OUTER, _TYPED = "form", "number_suffix", "outer_names", "typed_literal"

# Spark writes these in capitals, unless they were called by one of their other names
_CAPITALS = frozenset(
    [
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "cos", "cosh", "cot", "csc", "degrees", "e", "exp",
        "expm1", "floor", "hypot", "log", "log10", "log1p", "log2", "pi", "power", "radians", "regexp", "regexp_like", "rlike", "sec",
        "signum", "sin", "sinh", "sqrt", "tan", "tanh",
    ]
)  # fmt: skip
_CASTS = frozenset(
    ["bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "smallint", "string", "timestamp", "tinyint"]
)
# their flag for IGNORE NULLS is not shown
_TIMED = frozenset(["first", "first_value", "any_value", "last", "last_value"])
_LISTS = frozenset(["listagg", "string_agg"])
# what Spark fills in for arguments that were left out: (number of arguments given, the rest)
_TIME_FORMAT = "yyyy-MM-dd HH:mm:ss"
_DEFAULTS: dict[str, tuple[int, str]] = {
    "round": (1, "0"), "bround": (1, "0"), "split": (2, "-1"), "regexp_replace": (3, "1"), "regexp_extract": (2, "1"),
    "locate": (2, "1"), "position": (2, "1"), "lpad": (2, " "), "rpad": (2, " "), "replace": (2, ""), "sort_array": (1, "true"),
    "months_between": (2, "true"), "from_unixtime": (1, _TIME_FORMAT), "unix_timestamp": (1, _TIME_FORMAT),
    "to_unix_timestamp": (1, _TIME_FORMAT), "overlay": (3, "-1"), "substr": (2, "2147483647"), "substring": (2, "2147483647"),
    "percentile": (2, "1"), "percentile_approx": (2, "10000"), "approx_percentile": (2, "10000"),
}  # fmt: skip
_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div", exp.BitwiseAnd: "&", exp.BitwiseOr: "|",
    exp.BitwiseXor: "^", exp.BitwiseLeftShift: "<<", exp.BitwiseRightShift: ">>", exp.EQ: "=", exp.NullSafeEQ: "<=>",
    exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.And: "AND", exp.Or: "OR",
}  # fmt: skip


def note_form(node: exp.Expr, word: str) -> None:
    """`node` was written with this word and parentheses."""
    if not isinstance(node, exp.Anonymous):
        node.meta[_FORM] = word.lower()


def note_suffix(node: exp.Expr, suffix: str) -> None:
    """`node` is a number with a suffix, such as 1L."""
    node.meta[_SUFFIX] = suffix


def note_typed_literal(node: exp.Expr | None) -> None:
    """If `node` is a type and a string, as in DATE '2020-01-01', that is a literal and no cast."""
    if isinstance(node, exp.Cast) and node.this.is_string and not node.meta.keys() & {_FORM, _SUFFIX}:
        node.meta[_TYPED] = True


def is_typed_literal(node: exp.Expr) -> bool:
    return _TYPED in node.meta


def number_suffix(node: exp.Expr) -> str | None:
    suffix: str | None = node.meta.get(_SUFFIX)
    return suffix


def column_name(tree: exp.Expr) -> str:
    """The name of a select item: its alias, the column's own name, or what it computes."""
    bare = _without_parens(tree)
    if isinstance(bare, exp.Alias):
        return str(bare.alias)
    if isinstance(bare, exp.Cast) and _is_written_cast(bare):
        inner = _without_parens(bare.this)
        if isinstance(inner, exp.Column | exp.Cast) and _is_column_or_cast(inner):
            return column_name(inner)
    if isinstance(bare, exp.Dot) and isinstance(bare.this, exp.Column | exp.Dot) and bare.find(exp.Column):
        return str(bare.expression.name)
    return shown(bare)


def shown(tree: exp.Expr) -> str:
    """An expression as Spark's analyser prints it."""
    operator = _BINARY.get(type(tree))
    if operator is not None:
        return _binary(tree, operator)
    match tree:
        case exp.Anonymous():
            return _call(tree.name.lower(), tree.expressions)
        case exp.Paren() | exp.IgnoreNulls() | exp.RespectNulls():
            return shown(tree.this)
        case exp.Alias():
            return f"{shown(tree.this)} AS {tree.alias}"
        case exp.Column():
            return "*" if isinstance(tree.this, exp.Star) else str(tree.name)
        case exp.Dot():
            return f"{shown(tree.this)}.{tree.expression.name}"
        case exp.Identifier():  # columns do not get this far
            return "namedlambdavariable()"
        case exp.Lambda():
            return f"lambdafunction({_listed([tree.this, *tree.expressions])})"
        case exp.Var():
            return tree.name
        case exp.Literal():
            return tree.name if tree.is_string else number_name(tree.name)
        case exp.Boolean():
            return "true" if tree.this else "false"
        case exp.Null():
            return "NULL"
        case exp.Star():
            return "*"
        case exp.HexString():
            return f"X'{tree.name.upper()}'"
        case exp.Cast():
            return _cast(tree)
        case exp.Interval():
            return interval_name(tree)
        case exp.Distinct():
            return f"DISTINCT {_listed(tree.expressions)}"
        case exp.Filter():
            return f"{shown(tree.this)} FILTER (WHERE {shown(tree.expression.this)})"
        case exp.WithinGroup():
            return f"{shown(tree.this)} WITHIN GROUP (ORDER BY {_within_group(tree.this.name.lower(), tree.expression.expressions)})"
        case OverFunction():
            return _over(tree)
        case exp.Bracket():
            return f"{shown(tree.this)}[{_listed(tree.expressions)}]"
        case exp.Subquery():
            return f"scalarsubquery({_outer(tree)})"
        case exp.Exists():
            return f"exists({_outer(tree)})"
        case exp.DPipe():
            return f"concat({shown(tree.this)}, {shown(tree.expression)})"
        case exp.Concat():  # strings side by side
            return "".join(shown(part) for part in tree.expressions)
    return _predicate(tree) or _special(tree)


def _within_group(function: str, keys: list[exp.Ordered]) -> str:
    """Spark writes out the direction for lists only, and for the mode the other way round."""
    descends = bool(keys[0].args.get("desc"))
    if function in _LISTS:
        return ", ".join(f"{shown(key.this)} {_direction(bool(key.args.get('desc')), bool(key.args.get('nulls_first')))}" for key in keys)
    return f"{shown(keys[0].this)}{' DESC' if descends != (function == 'mode') else ''}"


def _direction(descending: bool, nulls_first: bool) -> str:
    return f"{'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


def note_outer(query: exp.Expr, names: list[str]) -> None:
    """Spark shows which columns of the outer query an inner one names."""
    query.meta[_OUTER] = names


def _outer(tree: exp.Expr) -> str:
    return ", ".join(tree.meta.get(_OUTER, ()))


def _operand(tree: exp.Expr) -> str:
    """What stands before IN with a query: a row is a struct."""
    if not isinstance(tree, exp.Tuple):
        return shown(tree)
    fields = [f"'{part.name if isinstance(part, exp.Column) else f'col{i}'}', {shown(part)}" for i, part in enumerate(tree.expressions, 1)]
    return f"named_struct({', '.join(fields)})"


def _predicate(tree: exp.Expr) -> str | None:
    match tree:
        case exp.NEQ():
            return f"(NOT ({shown(tree.this)} = {shown(tree.expression)}))"
        case exp.NullSafeNEQ():
            return f"(NOT ({shown(tree.this)} <=> {shown(tree.expression)}))"
        case exp.Not(this=exp.Is(this=operand, expression=exp.Null())):
            return f"({shown(operand)} IS NOT NULL)"
        case exp.Not():
            return f"(NOT {shown(tree.this)})"
        case exp.Neg():
            text = shown(tree.this)
            return f"-{text}" if isinstance(tree.this, exp.Literal) or number_suffix(tree.this) else f"(- {text})"
        case exp.BitwiseNot():
            return f"~{shown(tree.this)}"
        case exp.Is(expression=exp.Null()):
            return f"({shown(tree.this)} IS {'NOT ' if tree.args.get('negate') else ''}NULL)"
        case exp.Is():
            return f"({shown(tree.this)} <=> {shown(tree.expression)})"
        case exp.Between():
            return f"between({shown(tree.this)}, {shown(tree.args['low'])}, {shown(tree.args['high'])})"
        case exp.In() if tree.args.get("query") is not None:
            return f"({_operand(tree.this)} IN (listquery({_outer(tree)})))"
        case exp.In() if tree.expressions:
            return f"({shown(tree.this)} IN ({_listed(tree.expressions)}))"
        case exp.Escape():
            return f"{shown(tree.this)} ESCAPE '{shown(tree.expression)}'"
        case exp.Like() | exp.ILike():
            subject, pattern = shown(tree.this), shown(tree.expression)
            text = f"{subject} LIKE {pattern}" if isinstance(tree, exp.Like) else f"ilike({subject}, {pattern})"
            return f"(NOT {text})" if tree.args.get("negate") else text
        case exp.RegexpLike():
            return f"RLIKE({shown(tree.this)}, {shown(tree.expression)})"
    return None


def _special(tree: exp.Expr) -> str:
    """Functions with a syntax of their own."""
    name = tree.meta.get(_FORM, "")
    match tree:
        case exp.Case():
            return _case(tree)
        case exp.If():
            branches = [tree.this, tree.args.get("true"), tree.args.get("false") or exp.Null()]
            return f"(IF({_listed([branch for branch in branches if branch])}))"
        case exp.Extract():
            return f"extract({tree.this.name} FROM {shown(tree.expression)})"
        case exp.Trim() if tree.expression:
            return f"TRIM({tree.args.get('position') or 'BOTH'} {shown(tree.expression)} FROM {shown(tree.this)})"
        case exp.Trim():
            word = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(tree.args.get("position")), "trim")
            return f"{word}({shown(tree.this)})"
    if name:
        arguments = [child for child in tree.iter_expressions() if not isinstance(child, exp.Var)]
        return _call(name, arguments)
    return tree.sql(dialect="spark")


def _call(name: str, arguments: Sequence[exp.Expr]) -> str:
    texts = [shown(argument) for argument in arguments]
    if name in _TIMED or name == "approx_count_distinct":
        texts = texts[:1]
    if name == "mode" and len(texts) == 2:
        return f"mode() WITHIN GROUP (ORDER BY {texts[0]} DESC)" if texts[1] == "true" else f"mode({texts[0]})"
    if name in _LISTS and arguments:
        inside = arguments[0].expressions if isinstance(arguments[0], exp.Distinct) else arguments
        name, texts = "listagg", [*texts, *(["NULL"] if len(inside) == 1 else [])]
    name = "collect_list" if name == "array_agg" else name
    if name in _CASTS and len(texts) == 1:
        return texts[0]
    if name == "count" and texts == ["*"]:
        texts = ["1"]
    if name in ("isnull", "isnotnull") and len(texts) == 1:
        return f"({texts[0]} IS {'NOT ' if name == 'isnotnull' else ''}NULL)"
    if name == "like" and len(texts) == 2:
        return f"{texts[0]} LIKE {texts[1]}"
    if name == "log" and len(texts) == 1:
        texts = ["E()", *texts]
    given, default = _DEFAULTS.get(name, (-1, ""))
    if len(texts) == given:
        texts.append(default)
    # floor(x, digits) and ceil(x, digits) are other functions to Spark
    capitals = name in _CAPITALS and not (name in ("floor", "ceil") and len(texts) == 2)
    return f"{name.upper() if capitals else name}({', '.join(texts)})"


def _over(tree: OverFunction) -> str:
    """Spark writes out everything, the frame too."""
    name, nulls = tree.this.lower(), tree.args.get("nulls")
    name = name.removesuffix("_value") if nulls and name in ("first_value", "last_value") else name
    arguments = list(tree.expressions) or ([exp.Literal.number(1)] if name == "count" else [])
    if name in ("lag", "lead"):
        arguments += [exp.Literal.number(1), exp.Null()][len(arguments) - 1 :]
    keys, directions = tree.args.get("order") or [], tree.args.get("directions") or ()
    order = [f"{shown(key)} {_direction(descending, nulls_first)}" for key, (descending, nulls_first) in zip(keys, directions, strict=True)]
    partition_by = tree.args.get("partition_by")
    parts = [f"PARTITION BY {_listed(partition_by)}"] if partition_by else []
    parts += [f"ORDER BY {', '.join(order)}"] if order else []
    call, window = _call(name, arguments), " ".join([*parts, _frame(tree, name, arguments)])
    call = call.upper() if name in ("rank", "dense_rank", "percent_rank") else call
    condition = tree.args.get("condition")
    chosen = f" FILTER (WHERE {shown(condition)})" if condition is not None else ""
    chosen += " ignore nulls" if nulls == "IGNORE" and name == "nth_value" else ""
    return f"{call}{chosen} OVER ({window})"


def _frame(tree: OverFunction, name: str, arguments: list[exp.Expr]) -> str:
    spec = tree.args.get("spec")
    if name in ("lag", "lead"):
        distance = shown(arguments[1])
        distance = (
            distance if name == "lead" or distance == "0" else distance.removeprefix("-") if distance.startswith("-") else f"-{distance}"
        )
        return f"ROWS BETWEEN {distance} FOLLOWING AND {distance} FOLLOWING"
    if spec is not None:
        start, stop = (_edge(spec.args.get(edge), spec.args.get(f"{edge}_side")) for edge in ("start", "end"))
        return f"{spec.args['kind']} BETWEEN {start} AND {stop}"
    if name in ("row_number", "rank", "dense_rank", "ntile", "nth_value", "percent_rank", "cume_dist"):
        unit = "RANGE" if name in ("cume_dist", "nth_value") else "ROWS"
        return f"{unit} BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    if tree.args.get("order"):
        return "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    return "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def _edge(edge: exp.Expr | str | None, side: str | None) -> str:
    if isinstance(edge, exp.Expr):
        return f"{shown(edge)} {side}"
    return f"UNBOUNDED {side}" if edge == "UNBOUNDED" else "CURRENT ROW"


def _binary(tree: exp.Expr, operator: str) -> str:
    left, right = tree.args["this"], tree.args["expression"]
    text = f"{shown(left)} {operator} {shown(right)}"
    is_time_shift = operator in "+-" and any(isinstance(_without_parens(side), exp.Interval) for side in (left, right))
    return text if is_time_shift else f"({text})"


def _case(tree: exp.Case) -> str:
    subject = tree.args.get("this")
    parts = ["CASE"]
    for branch in tree.args["ifs"]:
        condition = shown(branch.this) if subject is None else f"({shown(subject)} = {shown(branch.this)})"
        parts.append(f"WHEN {condition} THEN {shown(branch.args['true'])}")
    if tree.args.get("default") is not None:
        parts.append(f"ELSE {shown(tree.args['default'])}")
    return " ".join([*parts, "END"])


def _cast(tree: exp.Cast) -> str:
    suffix = number_suffix(tree)
    if suffix is not None:
        return number_name(tree.this.name, suffix)
    type_ = tree.to.sql(dialect="spark").replace(", ", ",")
    if not _is_written_cast(tree):
        return f"{type_} '{instant_name(tree.this.name)}'"
    word = "TRY_CAST" if tree.meta.get(_FORM) == "try_cast" else "CAST"
    return f"{word}({shown(tree.this)} AS {type_})"


def _is_written_cast(tree: exp.Cast) -> bool:
    """CAST(x AS type), x::type or type(x), but not a literal such as DATE '2020-01-01' or 1L."""
    return _SUFFIX not in tree.meta and (_FORM in tree.meta or not isinstance(tree.this, exp.Literal))


def _is_column_or_cast(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Column) or (isinstance(tree, exp.Cast) and _is_written_cast(tree))


def _listed(trees: Sequence[exp.Expr]) -> str:
    return ", ".join(shown(tree) for tree in trees)


def _without_parens(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree
