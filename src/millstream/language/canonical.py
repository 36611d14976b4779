"""When do two expressions say the same?  `GROUP BY a + 1` covers `(1 + a)`, `GROUP BY upper(x)` covers `UPPER(x)`.

Works on trees whose columns are resolved already.  Equal texts mean equal values; the reverse is not promised.
"""

from __future__ import annotations

from sqlglot import exp

_COMMUTATIVE = (exp.Add, exp.Mul, exp.And, exp.Or, exp.EQ, exp.NullSafeEQ, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)


def canonical(tree: exp.Expr) -> str:
    match tree:
        case exp.Paren():
            return canonical(tree.this)
        case exp.Column():
            return f'"{tree.name}"'
        case exp.Anonymous():
            return f"{tree.name.lower()}({', '.join(map(canonical, tree.expressions))})"
        case exp.Literal():
            return f"'{tree.name}'" if tree.is_string else tree.name
    if isinstance(tree, _COMMUTATIVE):
        sides = sorted((canonical(tree.args["this"]), canonical(tree.args["expression"])))
        return f"{tree.key}({', '.join(sides)})"
    parts = [f"{key}={_value(value)}" for key, value in tree.args.items() if value is not None and value is not False and value != []]
    return f"{tree.key}({', '.join(parts)})"


def _value(value: object) -> str:
    if isinstance(value, exp.Expr):
        return canonical(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)
