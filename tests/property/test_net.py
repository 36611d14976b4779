"""NetOp against the definition: the bag at every instant stays, and nothing is left to cancel."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import Schema
from millstream.operators.net import NetOp
from property.histories import History, assert_netted, contents_at, histories, run

SCHEMAS = [
    Schema.of(a="INT"),
    Schema.of(a="BOOLEAN", b="STRING"),
    Schema.of(a="DOUBLE", b="DECIMAL(38,3)", c="DATE"),
    Schema.of(a="ARRAY<DOUBLE>", b="BOOLEAN"),
    Schema.of(a="STRUCT<x:STRING,y:ARRAY<INT>>"),
    Schema.of(a="MAP<STRING,INT>"),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_net_changes_add_up_to_the_same_and_are_netted(schema: Schema, data: st.DataObject) -> None:
    history: History = data.draw(histories(schema))
    netted = run(NetOp(schema), history)
    assert_netted(netted)
    for now in history.instants():
        assert contents_at(netted, now) == contents_at(history.changes, now)
    assert repr(netted) == repr(run(NetOp(schema), history.uncut()))


def test_nothing_to_net_is_nothing_to_do() -> None:
    schema = Schema.of(a="INT")
    history = History(schema, ((1, 1, (5,)), (2, -1, (5,)), (2, -1, (5,))), frozenset())
    batch, frontier = history.steps()[0]
    assert NetOp(schema).step(batch, frontier) is batch
