"""The name that Spark gives to a result column without an alias: the expression, printed in Spark's own way."""

from __future__ import annotations

from sqlglot import exp

from millstream.core.errors import MillstreamError
from millstream.language.scalar_syntax import call_of

_INFIX: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div",
    exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
    exp.And: "AND", exp.Or: "OR", exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^",
}  # fmt: skip


def output_name(tree: exp.Expr) -> str:
    """`(a + b)`, `upper(s)`, `CAST(a AS INT)`; a bare column gives its own name."""
    if isinstance(tree, exp.Alias):
        return str(tree.alias)
    if isinstance(tree, exp.Column | exp.Dot):
        return str(tree.name if isinstance(tree, exp.Column) else tree.expression.name)
    return _shown(tree)


def _shown(node: exp.Expr) -> str:
    kind = type(node)
    if kind in _INFIX:
        return f"({_shown(node.this)} {_INFIX[kind]} {_shown(node.expression)})"
    match node:
        case exp.Paren():
            return _shown(node.this)
        case exp.Alias():
            return f"{_shown(node.this)} AS {node.alias}"
        case exp.Column():
            return ".".join(part.name for part in node.parts)
        case exp.Identifier():
            return "namedlambdavariable()"
        case exp.Dot():
            return f"{_shown(node.this)}.{node.expression.name}"
        case exp.Bracket():
            return f"{_shown(node.this)}[{', '.join(map(_shown, node.expressions))}]"
        case exp.Star():
            return "1"
        case exp.Null():
            return "NULL"
        case exp.Boolean():
            return "true" if node.this else "false"
        case exp.Literal() | exp.RawString():
            return str(node.this)
        case exp.Cast():
            return f"CAST({_shown(node.this)} AS {node.to.sql(dialect='spark')})"
    return _condition(node) or _call(node)


def _condition(node: exp.Expr) -> str | None:
    match node:
        case exp.Not(this=exp.Is(expression=exp.Null()) as inner):
            return f"({_shown(inner.this)} IS NOT NULL)"
        case exp.Is(expression=exp.Null()):
            return f"({_shown(node.this)} IS NULL)"
        case exp.NEQ():
            return f"(NOT ({_shown(node.this)} = {_shown(node.expression)}))"
        case exp.Not():
            return f"(NOT {_shown(node.this)})"
        case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return f"-{node.this.this}"
        case exp.Neg():
            return f"(- {_shown(node.this)})"
        case exp.In():
            return f"({_shown(node.this)} IN ({', '.join(map(_shown, node.expressions))}))"
        case exp.Between():
            return f"between({_shown(node.this)}, {_shown(node.args['low'])}, {_shown(node.args['high'])})"
        case exp.Case():
            return _case(node)
        case exp.If():
            return f"(IF({_shown(node.this)}, {_shown(node.args['true'])}, {_shown(node.args['false'])}))"
    return None


def _case(node: exp.Case) -> str:
    parts = ["CASE"]
    for branch in node.args["ifs"]:
        condition = _shown(branch.this) if node.this is None else f"({_shown(node.this)} = {_shown(branch.this)})"
        parts.append(f"WHEN {condition} THEN {_shown(branch.args['true'])}")
    if node.args.get("default") is not None:
        parts.append(f"ELSE {_shown(node.args['default'])}")
    return " ".join([*parts, "END"])


def _call(node: exp.Expr) -> str:
    try:
        name, args = call_of(node)
    except MillstreamError:
        return node.sql(dialect="spark")
    return f"{name.lower()}({', '.join(map(_shown, args))})"
