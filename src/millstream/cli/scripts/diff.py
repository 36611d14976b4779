"""A mismatch as people read it: all lines, and beside each wrong one what is wrong with it.

          @0 + A,5
missing   @4 + A,12
extra     @4 + A,13
"""

from __future__ import annotations

from collections.abc import Sequence

from millstream.cli.scripts.compare import Comparison

_AGREEING = 40
"""Expected lists longer than this show only what is wrong."""
_SHOWN = 400


def diff_lines(expected: Sequence[str], actual: Sequence[str], comparison: Comparison) -> list[str]:
    """Expected lines in their order, each marked if it did not come; then the ones that came unexpected."""
    missing = set(comparison.missing)
    if len(expected) > _AGREEING:
        lines = [f"({len(expected) - len(missing)} of {len(expected)} expected lines came)"]
        lines += [_marked("missing", expected[i]) for i in comparison.missing]
    else:
        lines = [_marked("missing" if i in missing else "", line) for i, line in enumerate(expected)]
    lines += [_marked("extra", actual[i]) for i in comparison.extra]
    return lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"... and {len(lines) - _SHOWN} more"]


def _marked(mark: str, line: str) -> str:
    return f"{mark:10}{line}"
