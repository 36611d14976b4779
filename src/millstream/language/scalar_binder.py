"""The walk over a scalar expression: names become columns, every node gets a type, implicit casts become explicit.

Only the dispatch on syntax lives here; what an operator means is in `scalar_arithmetic`, `scalar_predicates`,
`scalar_literals` and `scalar_casts`, what a function means in `functions_*`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import ColumnNotFound, MillstreamError, NotSupported, StreamNotFound, TypeMismatch
from millstream.language import scalar_predicates as predicates
from millstream.language.coercion import BOOLEAN, INT, VOID, implicitly, is_array, is_integral, is_map, is_struct, named, widened
from millstream.language.column_names import is_typed_literal
from millstream.language.functions import Call
from millstream.language.functions_bits import BITWISE, bitwise_operands
from millstream.language.functions_datetime import UNIT_FIRST
from millstream.language.functions_lambda import HIGHER_ORDER, HigherOrder, Variable
from millstream.language.functions_table import find
from millstream.language.python_functions import function_at, other_functions
from millstream.language.scalar_arithmetic import arithmetic, negated
from millstream.language.scalar_casts import cast
from millstream.language.scalar_literals import interval, literal, number, readable
from millstream.language.scalar_syntax import by_strength, call_of, declared_type
from millstream.language.spans import span_of
from millstream.plan.duckdb_sql import in_template, lowered, quoted
from millstream.plan.expression import Expr, column

Resolve = Callable[[exp.Column], tuple[str, pa.DataType]]

_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div"}
_BITWISE: dict[type[exp.Expr], str] = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^"}
_LITERALS = (exp.Literal, exp.Boolean, exp.Null, exp.HexString, exp.RawString, exp.Concat)


class ScalarBinder:
    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._scopes: list[dict[str, tuple[str, Variable]]] = []  # variables of the lambdas around, outermost first

    def bind(self, node: exp.Expr) -> Expr:
        try:
            return self._bind(node)
        except MillstreamError as error:
            if error.span is None:
                error.span = span_of(node)
            raise

    def _bind(self, node: exp.Expr) -> Expr:
        kind = type(node)
        if kind in _ARITHMETIC:
            build = lambda left, right: kind(this=left, expression=right)  # noqa: E731
            return arithmetic(_ARITHMETIC[kind], self.bind(node.this), self.bind(node.expression), build)
        if kind in predicates.COMPARISONS:
            return predicates.comparison(kind, self.bind(node.this), self.bind(node.expression))
        match node:
            case exp.Paren():
                return self._parenthesised(node)
            case exp.Column():
                return self._column(node)
            case exp.Identifier():
                found = self._variable(node.name)
                return found if found is not None else self._column(exp.Column(this=node.copy()))
            case exp.Concat() if not _side_by_side(node):
                return self._call(node)
            case _ if isinstance(node, _LITERALS):
                return literal(node)
            case exp.Interval():
                return interval(node)
            case exp.Neg():
                return self._negated(node)
            case exp.And() | exp.Or():
                return self._connective(node)
            case exp.Not():
                inner = predicates.boolean(self.bind(node.this), "NOT", from_text=True)
                return Expr(exp.Not(this=inner.tree), BOOLEAN)
            case exp.Cast() if is_typed_literal(node):
                return readable(cast(literal(node.this), declared_type(node.to)), node.this.name)
            case exp.Cast():
                return cast(self.bind(node.this), declared_type(node.to))
            case exp.Case():
                return self._case(node)
            case exp.If():
                return self._if(node)
            case exp.Dot():
                return self._field(self.bind(node.this), node.expression.name)
            case exp.Bracket():
                return self._element(node)
            case exp.BitwiseAnd() | exp.BitwiseOr() | exp.BitwiseXor() | exp.BitwiseLeftShift() | exp.BitwiseRightShift():
                return self._bits(by_strength(node))
            case exp.BitwiseNot():
                return self._inverted(node)
        return self._predicate(node) or self._call(node)

    def _predicate(self, node: exp.Expr) -> Expr | None:
        match node:
            case exp.In() if not node.args.get("query"):
                return predicates.membership(self.bind(node.this), [self.bind(item) for item in node.expressions])
            case exp.Between():
                return predicates.between(self.bind(node.this), self.bind(node.args["low"]), self.bind(node.args["high"]))
            case exp.Is():
                return self._is(node)
            case exp.Like() | exp.ILike():
                return self._like(node, "\\")
            case exp.Escape() if isinstance(node.this, exp.Like | exp.ILike):
                return self._like(node.this, node.expression.name)
            case exp.RegexpLike():
                return find("rlike").bind(Call("rlike", (self.bind(node.this), self.bind(node.expression))))
        return None

    # --- names -----------------------------------------------------------------------------

    def _column(self, node: exp.Column) -> Expr:
        """A column, or the field of a struct column: `t.c`, `c.field` and `t.c.field` look the same to the parser."""
        parts = node.parts
        variable = self._variable(parts[0].name) if self._scopes else None
        if variable is not None:
            for field in parts[1:]:
                variable = self._field(variable, field.name)
            return variable
        failure: MillstreamError | None = None
        for count in range(len(parts), 0, -1):
            candidate = node if count == len(parts) else exp.Column(**_qualified(parts[:count]))
            try:
                name, type_ = self._resolve(candidate)
            except (ColumnNotFound, StreamNotFound) as error:
                failure = failure or error
                continue
            found = column(name, type_)
            for field in parts[count:]:
                found = self._field(found, field.name)
            return found
        assert failure is not None
        raise failure

    def _field(self, operand: Expr, name: str) -> Expr:
        if is_array(operand.type) and is_struct(operand.type.value_type):
            field = _find_field(operand.type.value_type, name)
            template = f'list_transform({{0}}, lambda "x": "x".{in_template(quoted(field.name))})'
            return _dotted(operand, field.name, pa.list_(field.type), template)
        if is_map(operand.type):
            return self._lookup(operand, literal(exp.Literal.string(name)))
        if not is_struct(operand.type):
            raise TypeMismatch(f'{named(operand.type)} has no field "{name}"')
        field = _find_field(operand.type, name)
        return _dotted(operand, field.name, field.type, f"struct_extract({{0}}, {in_template(_sql_text(field.name))})")

    def _element(self, node: exp.Bracket) -> Expr:
        if len(node.expressions) != 1:
            raise TypeMismatch("an index is one value")
        return self._lookup(self.bind(node.this), self.bind(node.expressions[0]))

    def _lookup(self, operand: Expr, key: Expr) -> Expr:
        """array[i], counting from 0, or map[key]; what is not there is NULL."""
        if is_map(operand.type):
            if not implicitly(key.type, operand.type.key_type):
                raise TypeMismatch(f"the keys are {named(operand.type.key_type)}, found {named(key.type)}")
            return find("element_at").bind(Call("element_at", (operand, cast(key, operand.type.key_type))))
        if not is_array(operand.type):
            raise TypeMismatch(f"{named(operand.type)} has no elements")
        return find("get").bind(Call("get", (operand, key)))

    # --- operators -------------------------------------------------------------------------

    def _parenthesised(self, node: exp.Paren) -> Expr:
        inner = self.bind(node.this)
        return Expr(exp.Paren(this=inner.tree), inner.type)

    def _negated(self, node: exp.Neg) -> Expr:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return number(f"-{node.this.this}")
        return negated(self.bind(node.this), lambda inner: exp.Neg(this=inner))

    def _connective(self, node: exp.And | exp.Or) -> Expr:
        word = "AND" if isinstance(node, exp.And) else "OR"
        operands = [self.bind(side) for side in node.flatten(unnest=False)]
        from_text = any(operand.type == BOOLEAN for operand in operands)
        sides = [predicates.boolean(operand, word, from_text=from_text) for operand in operands]
        tree = sides[0].tree
        for side in sides[1:]:
            tree = type(node)(this=tree, expression=side.tree)
        return Expr(tree, BOOLEAN)

    def _is(self, node: exp.Is) -> Expr:
        operand = self.bind(node.this)
        if isinstance(node.expression, exp.Boolean):
            return predicates.is_truth(operand, truth=bool(node.expression.this))
        if isinstance(node.expression, exp.Null):
            return predicates.is_null(operand)
        raise NotSupported("IS is followed by NULL, TRUE, FALSE or DISTINCT FROM")

    def _like(self, node: exp.Expr, escape: str) -> Expr:
        if isinstance(node.expression, exp.Any | exp.All):
            return self._like_several(node, escape)
        ignoring_case = isinstance(node, exp.ILike)
        found = predicates.like(self.bind(node.this), self.bind(node.expression), escape, ignoring_case=ignoring_case)
        return Expr(exp.Not(this=found.tree), BOOLEAN) if node.args.get("negate") else found

    def _like_several(self, node: exp.Expr, escape: str) -> Expr:
        """LIKE ANY (...) and LIKE ALL (...): one LIKE for each pattern."""
        listed = node.expression.this.unnest()
        patterns = listed.expressions if isinstance(listed, exp.Tuple) else [listed]
        negate = node.args.get("negate")
        each = [self._like(type(node)(this=node.this.copy(), expression=pattern.copy(), negate=negate), escape) for pattern in patterns]
        connective = exp.Or if isinstance(node.expression, exp.Any) else exp.And
        tree = each[0].tree
        for one in each[1:]:
            tree = connective(this=tree, expression=one.tree)
        return Expr(tree, BOOLEAN)

    def _inverted(self, node: exp.BitwiseNot) -> Expr:
        operand = self.bind(node.this)
        operand = cast(operand, INT) if operand.type == VOID else operand
        if not is_integral(operand.type):
            raise TypeMismatch(f'no operator "~" for {named(operand.type)}')
        return Expr(lowered(exp.BitwiseNot(this=operand.tree), "(~{0})"), operand.type)

    def _bits(self, node: exp.Expr) -> Expr:
        """A chain of bit operators that stands in Spark's order already."""
        symbol = _BITWISE.get(type(node))
        if symbol is None:
            return self._call(node) if isinstance(node, exp.BitwiseLeftShift | exp.BitwiseRightShift) else self.bind(node)
        left, right = bitwise_operands(symbol, self._bits(node.this), self._bits(node.expression))
        return Expr(lowered(type(node)(this=left.tree, expression=right.tree), BITWISE[symbol]), left.type)

    # --- conditions ------------------------------------------------------------------------

    def _case(self, node: exp.Case) -> Expr:
        subject = node.this
        conditions, values = [], []
        for branch in node.args["ifs"]:
            if subject is None:
                conditions.append(predicates.boolean(self.bind(branch.this), "a condition of CASE"))
            else:
                conditions.append(predicates.comparison(exp.EQ, self.bind(subject), self.bind(branch.this)))
            values.append(self.bind(branch.args["true"]))
        default = self.bind(node.args["default"]) if node.args.get("default") is not None else None
        return case(conditions, values, default)

    def _if(self, node: exp.If) -> Expr:
        if node.args.get("false") is None:
            raise TypeMismatch("if takes a condition and two values")
        condition = predicates.boolean(self.bind(node.this), "the condition of if")
        return case([condition], [self.bind(node.args["true"])], self.bind(node.args["false"]))

    # --- functions -------------------------------------------------------------------------

    def _call(self, node: exp.Expr) -> Expr:
        name, args = call_of(node)
        name = name.lower()
        if name in HIGHER_ORDER:
            return self._higher_order(name, args)
        function = function_at(node) or find(name, other_functions(node))
        if name in UNIT_FIRST and len(args) == 3:
            args = [_unit_name(args[0]), *args[1:]]
        elif name == "struct":
            name, args = "named_struct", _with_names(args)
        if self._scopes and function_at(node) is not None:
            raise NotSupported(f"{name} cannot be called inside a lambda", hint="A Python function is called once for a row.")
        call = Call(name, tuple(self.bind(arg) for arg in args), tuple(map(_own_name, args)))
        function.check_arity(call)
        return function.bind(call)

    def _higher_order(self, name: str, args: list[exp.Expr]) -> Expr:
        bound = [arg if isinstance(arg, exp.Lambda) else self.bind(arg) for arg in args]
        return HIGHER_ORDER[name](HigherOrder(name, bound, self._lambda_body, len(self._scopes)))

    def _lambda_body(self, node: exp.Lambda, variables: Sequence[Variable], names: Sequence[str]) -> Expr:
        scope = {}
        for i, (written, meant) in enumerate(zip(node.expressions, variables, strict=True)):
            name = names[min(i, len(names) - 1)]
            scope[written.name.lower()] = (name, meant)
        self._scopes.append(scope)
        try:
            return self.bind(node.this)
        finally:
            self._scopes.pop()

    def _variable(self, name: str) -> Expr | None:
        for scope in reversed(self._scopes):
            if name.lower() in scope:
                parameter, meant = scope[name.lower()]
                tree = exp.to_identifier(name, quoted=True)
                return Expr(lowered(tree, in_template(meant.sql.format(name=quoted(parameter)))), meant.type)
        return None


def _own_name(node: exp.Expr) -> str | None:
    return node.expression.name if isinstance(node, exp.Dot) else node.name if isinstance(node, exp.Column) else None


def _unit_name(node: exp.Expr) -> exp.Expr:
    """The unit of timestampadd and its like: a word, which the parser takes for a column."""
    return exp.Literal.string(node.name) if isinstance(node, exp.Column | exp.Var) and not node.args.get("table") else node


def _with_names(args: list[exp.Expr]) -> list[exp.Expr]:
    """struct(a, b AS c, 1) as named_struct('a', a, 'c', b, 'col3', 1)."""
    pairs: list[exp.Expr] = []
    for position, arg in enumerate(args, start=1):
        named_ = isinstance(arg, exp.Alias | exp.Column | exp.Dot)
        name = arg.alias if isinstance(arg, exp.Alias) else arg.expression.name if isinstance(arg, exp.Dot) else arg.name
        pairs += [exp.Literal.string(name if named_ else f"col{position}"), arg.this if isinstance(arg, exp.Alias) else arg]
    return pairs


def case(conditions: list[Expr], values: list[Expr], default: Expr | None) -> Expr:
    """CASE with its branches in their common type."""
    branches = values if default is None else [*values, default]
    type_ = widened([branch.type for branch in branches])
    if type_ is None:
        found = ", ".join(named(branch.type) for branch in branches)
        raise TypeMismatch(f"the branches have no common type: {found}")
    ifs = [exp.If(this=when.tree, true=cast(then, type_).tree) for when, then in zip(conditions, values, strict=True)]
    tree = exp.Case(ifs=ifs, default=cast(default, type_).tree if default is not None else None)
    return Expr(tree, type_)


def _qualified(parts: list[exp.Expr]) -> dict[str, exp.Expr]:
    return {key: part.copy() for key, part in zip(("this", "table", "db", "catalog"), reversed(parts), strict=False)}


def _side_by_side(node: exp.Concat) -> bool:
    return not node.meta.get("name") and all(isinstance(part, exp.Literal) and part.is_string for part in node.expressions)


def _find_field(struct: pa.StructType, name: str) -> pa.Field:
    for field in struct:
        if field.name.lower() == name.lower():
            return field
    raise ColumnNotFound(f'{named(struct)} has no field "{name}"')


def _dotted(operand: Expr, name: str, type_: pa.DataType, template: str) -> Expr:
    tree = exp.Dot(this=operand.tree, expression=exp.to_identifier(name, quoted=True))
    return Expr(lowered(tree, template), type_)


def _sql_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
