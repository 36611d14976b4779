"""From a logical plan to fragments: where rows must meet, and what must be netted.

Three properties travel up the tree with each node:

    distribution   which columns decide the bucket of a change (see physical.Distribution)
    netted         no instant holds both an insertion and a deletion of the same row
    equal          which columns have one value in every row: who is split by one of them is split by the others

A grouping needs equal keys in one bucket; the root of a relation-valued query, and ISTREAM and
DSTREAM, need netted changes, hence equal rows in one bucket.  Where the rows of a log feed a
window directly, they are split before they enter it; only above other operators do changes
themselves travel, through a second stage.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from millstream.core.errors import NotSupported
from millstream.plan.equal_columns import NONE_EQUAL, EqualColumns
from millstream.plan.expiry import DEFAULT_EXPIRY, Expiry, above_rows, ending
from millstream.plan.expression import Named, column
from millstream.plan.function_calls import without_calls
from millstream.plan.logical import (
    Aggregate,
    AggregateCall,
    AsOfJoin,
    BoundQuery,
    Filter,
    Join,
    JoinKey,
    Negate,
    Over,
    Plan,
    Project,
    Repeat,
    Scan,
    SetOperation,
    Threshold,
    TopK,
    ToStream,
    Union,
    Window,
)
from millstream.plan.physical import (
    AggregateExec,
    Anywhere,
    AsOfJoinExec,
    ByKey,
    ComputedColumn,
    Distribution,
    Ends,
    Exec,
    ExpireExec,
    FilterExec,
    FilterStep,
    Fragment,
    FunctionCall,
    JoinExec,
    NegateExec,
    NetExec,
    OverExec,
    PhysicalPlan,
    ProjectExec,
    ProjectStep,
    ReceiveExec,
    RepeatExec,
    RStreamExec,
    SetOperationExec,
    Single,
    SourceExec,
    ThresholdExec,
    TopKExec,
    ToStreamExec,
    UnionExec,
    WindowExec,
    receives,
)
from millstream.plan.rules.aggregate_by_panes import aggregate_by_panes, moves_by_panes
from millstream.plan.rules.drop_idle_projects import drop_idle_projects
from millstream.plan.rules.extremes_before_exchange import extremes_before_exchange
from millstream.plan.rules.extremes_of_pairs import extremes_of_pairs
from millstream.plan.rules.prune_columns import prune_columns
from millstream.plan.rules.sums_of_products import sums_of_products
from millstream.plan.sort_key_sql import sort_key_sql
from millstream.plan.window import RowsWindow


@dataclass(frozen=True)
class _Placed:
    node: Exec
    distribution: Distribution
    netted: bool
    append_only: bool
    equal: EqualColumns = NONE_EQUAL
    strays: bool = False
    """A row may be taken back in another bucket than the one that it came in."""


_ENDS: dict[Expiry, Ends | None] = {
    "negative": None,
    "time_message": "with messages",
    "piggyback": "with piggybacked messages",
    "input_triggered": "silently",
}


def plan_physical(
    query: BoundQuery, partition_by: Mapping[str, tuple[str, ...]], expiry: Expiry = DEFAULT_EXPIRY,
    *, rules_off: frozenset[str] = frozenset(),
) -> PhysicalPlan:  # fmt: skip
    """`partition_by` says for each stream by which of its columns the log is split at ingest (none: it is not)."""
    planner = _Planner(partition_by, expiry, rules_off)
    placed = planner.root(query.plan)
    fragments = (*planner.fragments, Fragment(_stage(placed.node, planner.fragments), placed.node, None))
    return PhysicalPlan(fragments, placed.append_only)


class _Planner:
    def __init__(self, partition_by: Mapping[str, tuple[str, ...]], expiry: Expiry, rules_off: frozenset[str]) -> None:
        self.partition_by = partition_by
        self._by_panes = aggregate_by_panes.__name__ not in rules_off
        self._extremes_first = extremes_before_exchange.__name__ not in rules_off
        self._of_pairs = extremes_of_pairs.__name__ not in rules_off
        self._of_products = sums_of_products.__name__ not in rules_off
        self._ends = _ENDS[expiry]
        # who learns the time from arrivals must see all of them, or answers would depend on the number of buckets
        self._by_input = expiry == "input_triggered"
        self.fragments: list[Fragment] = []

    def root(self, plan: Plan) -> _Placed:
        if isinstance(plan, ToStream):
            return self._to_stream(plan)
        return self._net(self._place(plan))

    def _place(self, plan: Plan) -> _Placed:
        match plan:
            case Scan():
                return self._scan(plan)
            case Filter():
                return _filter(self._place(plan.input), plan)
            case Project():
                return _project(self._place(plan.input), plan)
            case Window():
                return self._window(plan)
            case Aggregate():
                return self._aggregate(plan)
            case Over():
                return self._over(plan)
            case TopK():
                return self._top_k(plan)
            case Join():
                return self._join(plan)
            case AsOfJoin():
                return self._asof_join(plan)
            case Threshold():
                return self._threshold(plan)
            case Union():
                return self._union(plan)
            case SetOperation():
                return self._set_operation(plan)
            case Repeat():
                below = self._place(plan.input)
                return replace(below, node=RepeatExec(below.node, plan.copies, plan.schema), netted=False, append_only=False)
            case Negate():
                below = self._place(plan.input)
                node = NegateExec(below.node, plan.schema)  # what it takes back is elsewhere in the union above it
                return _Placed(node, below.distribution, below.netted, append_only=False, strays=True)
            case ToStream():
                raise NotSupported(
                    "ISTREAM, DSTREAM and RSTREAM stand at the top of a query", hint="Name the inner query and read it as a stream."
                )

    def _scan(self, scan: Scan) -> _Placed:
        names = {field.name: name for name, field in scan.columns}
        keys = self.partition_by.get(scan.source, ())
        spread: Distribution = ByKey(tuple(names[key] for key in keys)) if keys and all(key in names for key in keys) else Anywhere()
        spread = Single() if self._by_input else spread
        columns = tuple((field.name, name, field.type) for name, field in scan.columns)
        split = isinstance(spread, ByKey)
        source = SourceExec(scan.source, scan.kind, scan.retracts, columns, (), scan.schema, spread, split_at_ingest=split)
        # several statements may change a relation at one instant
        return _Placed(source, spread, netted=not scan.retracts, append_only=not scan.retracts, strays=_is_dealt_with_signs(source))

    def _window(self, plan: Window) -> _Placed:
        below = self._place(plan.input)
        if isinstance(plan.spec, RowsWindow):
            below = self._meet(below, plan.spec.partition_by)  # who is among the newest is decided where all of them are
            below = replace(below, node=_with_ties_by_value(below.node))
        grows_only = plan.spec.grows_only
        node: Exec = WindowExec(below.node, plan.spec, plan.schema)
        if self._by_input:
            node = _expired(ending(node), node)
        return replace(below, node=node, netted=grows_only, append_only=grows_only)

    def _aggregate(self, plan: Aggregate) -> _Placed:
        below, calls = self._met_for_calls(self._place(plan.input), plan)
        spread = below.distribution if plan.keys else Single()
        whole = AggregateExec(below.node, plan.keys, calls, plan.schema, below.append_only)
        node = aggregate_by_panes(whole) if self._by_panes else whole
        netted = isinstance(node, AggregateExec)
        return _Placed(self._aggregated(node) if node is whole else node, spread, netted=netted, append_only=False)

    def _aggregated(self, whole: AggregateExec) -> Exec:
        """Without a join below it, where that can be."""
        node = extremes_of_pairs(whole) if self._of_pairs else whole
        return sums_of_products(whole) if node is whole and self._of_products else node

    def _met_for_calls(self, placed: _Placed, plan: Aggregate) -> tuple[_Placed, tuple[AggregateCall, ...]]:
        """Groups in one bucket each, and what to call there."""
        met = self._met_where_it_is(placed, plan.keys)
        if met is not None:
            return met, plan.calls
        of_each_bucket = AggregateExec(placed.node, plan.keys, plan.calls, plan.schema, placed.append_only)
        calls = extremes_before_exchange(of_each_bucket) if self._extremes_first and not placed.strays else None
        if calls is None:
            return self._meet(placed, plan.keys), plan.calls
        return self._meet(_Placed(self._aggregated(of_each_bucket), Anywhere(), netted=True, append_only=False), plan.keys), calls

    def _over(self, plan: Over) -> _Placed:
        below = self._meet(self._place(plan.input), plan.partition_by)
        node = OverExec(below.node, plan.partition_by, plan.order_by, plan.calls, plan.schema)
        return _Placed(node, below.distribution, netted=True, append_only=False)

    def _top_k(self, plan: TopK) -> _Placed:
        below = self._meet(self._place(plan.input), plan.partition_by)
        node = TopKExec(below.node, plan.partition_by, plan.order_by, plan.limit, plan.offset, plan.number, plan.schema)
        return _Placed(node, below.distribution, netted=True, append_only=False)

    def _join(self, plan: Join) -> _Placed:
        left, right = self._side_by_side(self._place(plan.left), self._place(plan.right), plan.keys)
        append_only = left.append_only and right.append_only
        node: Exec = JoinExec(left.node, right.node, plan.keys, plan.schema)
        sides = [ending(side.node) for side in (left, right)]
        if self._ends is not None and any(sides):
            one, other = (new or old.node for new, old in zip(sides, (left, right), strict=True))
            join = JoinExec(one, other, plan.keys, plan.schema, self._ends, may_become_exact=not self._by_input)
            node = ExpireExec(join, self._by_input, plan.schema)
        equal = left.equal.beside(right.equal).joined((key.left, key.right) for key in plan.keys)
        return _Placed(node, left.distribution, netted=append_only, append_only=append_only, equal=equal)

    def _asof_join(self, plan: AsOfJoin) -> _Placed:
        left, right = self._side_by_side(self._place(plan.left), self._place(plan.right), plan.keys)
        tie_sql = sort_key_sql([plan.right.schema[name] for name in plan.ties]) if plan.ties else None
        node = AsOfJoinExec(left.node, right.node, plan.keys, plan.match, tie_sql, plan.keeps_left, plan.schema)
        # left rows that can have no partner pass through as they come
        return _Placed(node, left.distribution, netted=left.netted or not plan.keeps_left, append_only=False)

    def _threshold(self, plan: Threshold) -> _Placed:
        left, right = self._side_by_side(self._place(plan.left), self._place(plan.right), plan.keys)
        bounds = right.node if right.netted else NetExec(right.node, right.node.schema)  # equal rows have equal keys: they are together
        node = ThresholdExec(left.node, bounds, plan.keys, plan.match, plan.schema)
        return _Placed(node, left.distribution, netted=True, append_only=False)

    def _side_by_side(self, left: _Placed, right: _Placed, keys: Sequence[JoinKey]) -> tuple[_Placed, _Placed]:
        """Rows that can meet end up in one bucket: both sides split by the same of the keys, as one of them is already if possible."""
        if self._by_input:
            return self._gathered(left), self._gathered(right)
        by_left, by_right = {key.left: key for key in keys}, {key.right: key for key in keys}
        if not keys or not all(_hashable(left.node.schema[key.left].type) for key in keys):
            return self._gathered(left), self._gathered(right)
        left, right = _said_by(left, by_left), _said_by(right, by_right)
        chosen = tuple(keys)
        if isinstance(left.distribution, ByKey) and set(left.distribution.columns) <= set(by_left):
            chosen = tuple(by_left[name] for name in left.distribution.columns)
        elif isinstance(right.distribution, ByKey) and set(right.distribution.columns) <= set(by_right):
            chosen = tuple(by_right[name] for name in right.distribution.columns)
        return self._split(left, ByKey(tuple(key.left for key in chosen))), self._split(right, ByKey(tuple(key.right for key in chosen)))

    def _union(self, plan: Union) -> _Placed:
        inputs = [self._place(child) for child in plan.inputs]
        if any(isinstance(placed.distribution, Single) for placed in inputs):
            inputs = [self._gathered(placed) for placed in inputs]  # a fragment runs in one bucket, or in all
        spreads = {placed.distribution for placed in inputs}
        append_only = all(placed.append_only for placed in inputs)
        node: Exec = UnionExec(tuple(placed.node for placed in inputs), plan.schema)
        if self._by_input:
            node = _expired(ending(node), node)
        spread = spreads.pop() if len(spreads) == 1 else Anywhere()
        strays = isinstance(spread, Anywhere) and any(placed.strays for placed in inputs)  # else equal rows are together
        return _Placed(node, spread, netted=append_only, append_only=append_only, strays=strays)

    def _set_operation(self, plan: SetOperation) -> _Placed:
        inputs = [self._gathered(self._place(child)).node for child in plan.inputs]
        ends = [ending(node) for node in inputs]
        told = tuple(new or old for new, old in zip(ends, inputs, strict=True))
        node: Exec = SetOperationExec(plan.kind, told, plan.schema)
        if any(ends):
            node = ExpireExec(node, self._by_input, plan.schema)
        return _Placed(node, Single(), netted=not any(ends), append_only=False)

    def _split(self, placed: _Placed, spread: Distribution) -> _Placed:
        return placed if placed.distribution == spread else self._exchanged(placed, spread)

    def _to_stream(self, plan: ToStream) -> _Placed:
        if plan.kind == "rstream":
            return self._rstream(plan)
        below = self._net(self._place(plan.input))
        if plan.kind == "istream" and below.append_only:
            return below  # every change is an arrival already
        return replace(below, node=ToStreamExec(below.node, plan.kind, plan.schema), netted=True, append_only=True)

    def _rstream(self, plan: ToStream) -> _Placed:
        below = self._gathered(self._place(plan.input))
        moments: list[Exec] = []
        for part in plan.moved_by:
            node = self._gathered(self._moves(part) if isinstance(part, Window) else self._net(self._place(part))).node
            if node not in moments:  # a join may need one side several times
                moments.append(node)
        return _Placed(RStreamExec(below.node, tuple(moments), plan.schema), Single(), netted=True, append_only=True)

    def _moves(self, window: Window) -> _Placed:
        """What moves when the window does."""
        placed = self._place(_narrowed(window))
        return replace(placed, node=moves_by_panes(placed.node)) if self._by_panes else placed

    def _net(self, placed: _Placed) -> _Placed:
        if placed.netted:
            return placed
        met = self._meet(placed, placed.node.schema.names)
        return replace(met, node=NetExec(met.node, met.node.schema), netted=True)

    def _meet(self, placed: _Placed, keys: tuple[str, ...]) -> _Placed:
        """Changes that agree in `keys` end up in one bucket; no keys: all of them do."""
        return self._met_where_it_is(placed, keys) or self._exchanged(placed, _where_equal(placed, keys))

    def _met_where_it_is(self, placed: _Placed, keys: tuple[str, ...]) -> _Placed | None:
        """The same as `_meet`, if no changes have to travel for it."""
        if isinstance(placed.distribution, Single):
            return placed
        spread, said = _where_equal(placed, keys), _said_by(placed, keys)
        if isinstance(spread, ByKey) and isinstance(said.distribution, ByKey) and set(said.distribution.columns) <= set(keys):
            return said
        return _split_from_source(placed, spread)

    def _gathered(self, placed: _Placed) -> _Placed:
        return placed if isinstance(placed.distribution, Single) else self._exchanged(placed, Single())

    def _exchanged(self, placed: _Placed, spread: Distribution) -> _Placed:
        if (split := _split_from_source(placed, spread)) is not None:
            return split
        fragment = Fragment(_stage(placed.node, self.fragments), placed.node, spread)
        if fragment not in self.fragments:  # else another part of the query reads the same
            self.fragments.append(fragment)
        received = ReceiveExec(self.fragments.index(fragment), placed.node.schema, spread)
        return replace(placed, node=received, distribution=spread, strays=False)


def _filter(below: _Placed, plan: Filter) -> _Placed:
    (sql,), calls = without_calls([plan.predicate], plan.input.schema.names)
    if isinstance(below.node, SourceExec):
        return replace(below, node=replace(below.node, prefix=(*below.node.prefix, FilterStep(sql, calls))))
    return replace(below, node=above_rows(below.node, lambda node: FilterExec(node, sql, plan.schema, calls)))


def _project(below: _Placed, plan: Project) -> _Placed:
    texts, calls = without_calls([named.expr for named in plan.columns], plan.input.schema.names)
    columns = tuple(ComputedColumn(named.name, sql, named.expr.type) for named, sql in zip(plan.columns, texts, strict=True))
    renamed = {next(iter(named.expr.columns)): named.name for named in plan.columns if named.expr.is_column}
    below = _said_by(below, renamed)
    spread = below.distribution
    if isinstance(spread, ByKey):
        kept = all(name in renamed for name in spread.columns)
        spread = ByKey(tuple(renamed[name] for name in spread.columns)) if kept else Anywhere()
    if isinstance(below.node, SourceExec):
        split = below.node.split_at_ingest and isinstance(spread, ByKey)
        prefix = (*below.node.prefix, ProjectStep(columns, calls))
        source = replace(below.node, prefix=prefix, schema=plan.schema, distribution=spread, split_at_ingest=split)
        return replace(below, node=source, distribution=spread, strays=_is_dealt_with_signs(source))
    tells_rows_apart = set(renamed) == set(below.node.schema.names)
    netted = below.append_only or (below.netted and tells_rows_apart)
    may_be_idle = below.netted and not below.append_only and not tells_rows_apart
    node = above_rows(below.node, lambda node: _projected(node, plan, columns, calls, may_be_idle=may_be_idle))
    return _Placed(node, spread, netted, below.append_only, below.equal.renamed(renamed), below.strays)


def _is_dealt_with_signs(source: SourceExec) -> bool:
    """Who takes a row back has a place of its own in the order of arrival, by which buckets are dealt where nothing else says it."""
    return source.retracts and isinstance(source.distribution, Anywhere)


def _projected(
    node: Exec, plan: Project, columns: tuple[ComputedColumn, ...], calls: tuple[FunctionCall, ...], *, may_be_idle: bool
) -> Exec:
    """A join that nobody wants all columns of does not make the others."""
    if isinstance(node, JoinExec) and node.gives is None and columns and all(named.expr.is_column for named in plan.columns):
        return replace(node, schema=plan.schema, gives=tuple(next(iter(named.expr.columns)) for named in plan.columns))
    return ProjectExec(node, columns, plan.schema, calls, may_be_idle)


def _expired(ends: Exec | None, otherwise: Exec) -> Exec:
    return ExpireExec(ends, True, ends.schema) if ends is not None else otherwise


def _where_equal(placed: _Placed, keys: tuple[str, ...]) -> Distribution:
    """What puts changes that agree in `keys` into one bucket."""
    return ByKey(keys) if keys and all(_hashable(placed.node.schema[key].type) for key in keys) else Single()


def _said_by(placed: _Placed, names: Collection[str]) -> _Placed:
    """The same, its buckets decided by columns among `names` as far as others have the same values."""
    if not isinstance(placed.distribution, ByKey):
        return placed
    said = tuple(placed.equal.one_of(names, name) or name for name in placed.distribution.columns)
    return replace(placed, distribution=ByKey(said))


def _split_from_source(placed: _Placed, spread: Distribution) -> _Placed | None:
    split = _split_at_source(placed.node, spread)
    return None if split is None else replace(placed, node=split, distribution=spread, strays=False)


def _split_at_source(node: Exec, spread: Distribution) -> Exec | None:
    """The same rows, split where they leave the log; None if an operator in between mixes rows."""
    match node:
        case SourceExec():
            return replace(node, distribution=spread, split_at_ingest=False)
        case WindowExec() if not isinstance(node.spec, RowsWindow):
            below = _split_at_source(node.input, spread)
            return None if below is None else replace(node, input=below)
        case _:
            return None


def _with_ties_by_value(node: Exec) -> Exec:
    """Rows that a query gave at one instant have no order of arrival: it would depend on how it ran."""
    return replace(node, ties_by_value=True) if isinstance(node, SourceExec) and node.kind == "query" else node


def _stage(node: Exec, fragments: list[Fragment]) -> int:
    return 1 + max((fragments[receive.fragment].stage for receive in receives(node)), default=0)


def _narrowed(window: Window) -> Plan:
    """The window with as few columns as it can do with: only its moves count."""
    keys = window.spec.partition_by if isinstance(window.spec, RowsWindow) else ()
    kept = dict.fromkeys(keys) or window.schema.names[:1]
    return drop_idle_projects(prune_columns(Project(window, tuple(Named(name, column(name, window.schema[name].type)) for name in kept))))


def _hashable(type_: pa.DataType) -> bool:
    return not pa.types.is_nested(type_)
