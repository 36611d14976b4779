"""TopKOp against its slow definition: every instant, any cut, ties, copies, saved and loaded."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import Schema
from millstream.kernels import row_store
from millstream.operators.top_k import TopKOp
from millstream.plan.ordering import SortKey
from property.histories import History, assert_netted, bag, contents_at, histories, signed_batch
from property.over_slow import rows_at, top_slow
from property.test_over import sort_keys

SCHEMA = Schema.of(k="STRING", n="TINYINT", y="DOUBLE")


@settings(max_examples=250, deadline=None)
@given(
    history=histories(
        SCHEMA,
        rows=st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, 3, None]), st.sampled_from([0.0, -0.0, 0.5, None])),
        size=40,
    ),
    partition_by=st.sampled_from([(), ("k",)]), order_by=st.lists(sort_keys(["k", "n", "y"]), max_size=2),
    limit=st.sampled_from([0, 1, 2, 3, 10**9]), offset=st.sampled_from([0, 0, 1, 3]), numbered=st.booleans(), saved=st.booleans(),
    slack=st.sampled_from([1, 1024]),
)  # fmt: skip
def test_first_rows_equal_recomputation(
    history: History, partition_by: tuple[str, ...], order_by: list[SortKey], limit: int, offset: int,
    numbered: bool, saved: bool, slack: int,
) -> None:  # fmt: skip
    def fresh() -> TopKOp:
        return TopKOp(SCHEMA, partition_by, order_by, limit, offset, "place" if numbered else None)

    operator, changes = fresh(), []
    with patch.object(row_store, "_SLACK", slack):
        for batch, frontier in history.steps():
            changes += operator.step(batch, frontier).changes()
            assert operator.state_rows() == len(rows_at(history, frontier))
            if saved:
                arrays, operator = operator.save(), fresh()
                operator.load(arrays)
    assert_netted(changes)
    for now in history.instants():
        expected = top_slow(rows_at(history, now), SCHEMA, partition_by, order_by, limit, offset, numbered)
        assert contents_at(changes, now) == bag(expected), now


def test_zeros_of_both_signs_take_each_other_s_place_silently() -> None:
    """They are two rows to the operator, for each must be found again, but equal to whoever reads the changes."""
    changes = ((0, 1, ("a", 1, 0.0)), (1, 1, ("a", 1, -0.0)))
    operator = TopKOp(SCHEMA, (), [SortKey("y")], 1)
    assert list(operator.step(signed_batch(SCHEMA, changes), 1).changes()) == [(0, 1, ("a", 1, 0.0))]
