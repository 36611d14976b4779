"""Cuts between ticks: every way covers all rows, in order, and the same seed cuts the same way."""

from __future__ import annotations

import pytest

from millstream.cli.scripts.batching import batching
from millstream.core.errors import ConfigInvalid


@pytest.mark.parametrize("text", ["default", "rows", "one", "random:3", "random:4"])
@pytest.mark.parametrize("rows", [0, 1, 2, 17])
def test_slices_cover_all_rows_in_order(text: str, rows: int) -> None:
    covered = [i for start, stop in batching(text, "a.slt").slices(rows) for i in range(start, stop)]
    assert covered == list(range(rows))


def test_each_way_cuts_where_it_says() -> None:
    default, rows, one = (batching(text, "a.slt") for text in ("default", "rows", "one"))
    assert default.slices(3) == one.slices(3) == [(0, 3)]
    assert rows.slices(3) == [(0, 1), (1, 2), (2, 3)]
    assert (default.flushes_after_insert(), default.flushes_after_advance()) == (False, True)
    assert (rows.flushes_after_insert(), rows.flushes_after_advance()) == (True, True)
    assert (one.flushes_after_insert(), one.flushes_after_advance()) == (False, False)


def test_random_cuts_repeat_with_the_seed_and_differ_without() -> None:
    def cuts(text: str, script: str) -> list[tuple[int, int]]:
        return batching(text, script).slices(50)

    assert cuts("random:1", "a.slt") == cuts("random:1", "a.slt")
    assert len({tuple(cuts(f"random:{seed}", "a.slt")) for seed in range(5)}) == 5
    assert cuts("random:1", "a.slt") != cuts("random:1", "b.slt")


@pytest.mark.parametrize("text", ["row", "random", "random:", "rows:1", ""])
def test_an_unknown_way_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        batching(text, "a.slt")
    assert "random:SEED" in str(caught.value.hint)
