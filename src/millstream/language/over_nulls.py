"""IGNORE NULLS with OVER, by the numbers of the rows: a value stands at the greatest or the least number that counts.

    last_value(x) IGNORE NULLS      max_by(x, CASE WHEN x IS NOT NULL THEN n END)                n: row_number() OVER (the same)
    lag(x, 3) IGNORE NULLS          max_by(p, CASE WHEN x IS NOT NULL THEN n END) before it      p: lag(x, 2) OVER those not NULL
    nth_value(x, 3) IGNORE NULLS    min_by(x, CASE WHEN x IS NOT NULL AND m >= 3 THEN n END)     m: row_number() OVER those not NULL

The numbers are columns of an `Over` below the one of the calls.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millstream.core.errors import NotSupported, TypeMismatch
from millstream.core.schema import type_name
from millstream.language.nodes import OverFunction
from millstream.language.over_binder import OverBinder
from millstream.language.scope import at_place
from millstream.language.spans import span_of
from millstream.language.unsupported import not_supported

_AT_AN_END = {"first_value": "min_by", "first": "min_by", "any_value": "min_by", "last_value": "max_by", "last": "max_by"}
_BEFORE = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end=exp.Literal.number(1), end_side="PRECEDING")
_BEHIND = exp.WindowSpec(kind="ROWS", start=exp.Literal.number(1), start_side="FOLLOWING", end="UNBOUNDED", end_side="FOLLOWING")


def without_nulls(tree: exp.Expr, numbers: OverBinder, sql: str) -> exp.Expr:
    """`tree` without IGNORE NULLS; what it needs for that is asked of `numbers`."""

    def swap(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, OverFunction) or not _says_nulls(node, sql):
            return node
        name = node.this.lower()
        if name not in _AT_AN_END and name not in ("lag", "lead", "nth_value"):
            raise NotSupported(f"IGNORE NULLS says nothing to {name}", span=span_of(node), sql=sql)
        plain = _with(node, nulls=None, expressions=node.expressions[:1] if name in _AT_AN_END else node.expressions)
        numbers.check_call(plain)
        return _Ignoring(plain, numbers, sql).rewritten() if _ignores(node) else plain

    return tree.copy().transform(swap, copy=False)


def _says_nulls(node: OverFunction, sql: str) -> bool:
    """IGNORE or RESPECT NULLS, or first_value(x, true)."""
    flag = node.expressions[1:] if node.this.lower() in _AT_AN_END else []
    if flag and not isinstance(flag[0], exp.Boolean):
        raise TypeMismatch(f"the second argument of {node.this.lower()} is true or false", span=span_of(flag[0]), sql=sql)
    return bool(flag) or node.args.get("nulls") is not None


def _ignores(node: OverFunction) -> bool:
    flag = node.expressions[1:] if node.this.lower() in _AT_AN_END else []
    return node.args.get("nulls") == "IGNORE" or bool(flag and flag[0].this)


def _with(node: OverFunction, **changed: object) -> OverFunction:
    """The node with other parts; lists are put in as copies."""
    copy = node.copy()
    for key, value in changed.items():
        copy.set(key, [part.copy() for part in value] if isinstance(value, list) else value)
    return copy


@dataclass(frozen=True)
class _Ignoring:
    node: OverFunction
    numbers: OverBinder
    sql: str

    def rewritten(self) -> exp.Expr:
        name = self.node.this.lower()
        match name:
            case "lag" | "lead":
                return self._neighbour(name)
            case "nth_value":
                return self._nth()
        return self._chosen(_AT_AN_END[name], self._value, self._is_there, self.node.args.get("spec"))

    @property
    def _value(self) -> exp.Expr:
        value: exp.Expr = self.node.expressions[0]
        return value

    @property
    def _is_null(self) -> exp.Expr:
        return exp.Is(this=exp.paren(self._value), expression=exp.null())

    @property
    def _is_there(self) -> exp.Expr:
        return exp.Not(this=self._is_null)

    def _neighbour(self, name: str) -> exp.Expr:
        distance = self.numbers.whole(self.node.expressions[1], name) if len(self.node.expressions) > 1 else 1
        if distance == 0:
            return self._value.copy()
        is_before = (name == "lag") == (distance > 0)
        value, others = self._value, abs(distance) - 1
        if others:
            value = self._among_present("lag" if is_before else "lead", [self._value, exp.Literal.number(others)])
        found = self._chosen("max_by" if is_before else "min_by", value, self._is_there, _BEFORE if is_before else _BEHIND)
        if len(self.node.expressions) < 3:
            return found
        type_ = type_name(self.numbers.value_type(self._value))  # the default becomes what the value is, as in Spark
        default = at_place(exp.cast(self.node.expressions[2].copy(), type_, dialect="spark"), self.node.expressions[2])
        return at_place(exp.Anonymous(this="coalesce", expressions=[found, default]), self.node)

    def _nth(self) -> exp.Expr:
        spec = self.node.args.get("spec")
        if spec is not None and (spec.args.get("start"), spec.args.get("start_side")) != ("UNBOUNDED", "PRECEDING"):
            hint = "Begin it with UNBOUNDED PRECEDING."
            raise not_supported("nth_value with IGNORE NULLS over a frame that begins later", self.node, self.sql, hint)
        nth = self.numbers.whole(self.node.expressions[1], "nth_value", least=1)
        late = exp.GTE(this=self._among_present("row_number", []), expression=exp.Literal.number(nth))
        return self._chosen("min_by", self._value, exp.And(this=self._is_there, expression=late), spec)

    def _chosen(self, function: str, value: exp.Expr, counts: exp.Expr, spec: exp.WindowSpec | None) -> OverFunction:
        """The value of the first or the last row of the frame that counts."""
        number = self.numbers.above(_with(self.node, this="row_number", expressions=[], spec=None, **self._any_order()))
        place = exp.Case(ifs=[exp.If(this=counts, true=number)])
        return _with(self.node, this=function, expressions=[value, place], spec=spec.copy() if spec is not None else None)

    def _among_present(self, function: str, arguments: list[exp.Expr]) -> exp.Expr:
        """A call over the rows whose value is not NULL, of use for those only."""
        partition_by = [*self.node.args["partition_by"], self._is_null]
        return self.numbers.above(_with(self.node, this=function, expressions=arguments, partition_by=partition_by, spec=None))

    def _any_order(self) -> dict[str, object]:
        """Rows are numbered in some order even where none is written: the one by which `Over` breaks ties."""
        return {} if self.node.args["order"] else {"order": [exp.Literal.number(1)], "directions": ((False, True),)}
