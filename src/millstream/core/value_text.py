"""A value of the user's own as text, whatever it is."""

from __future__ import annotations

from typing import Any


def value_text(value: Any) -> str:
    """As Python shows it; an object may not know how."""
    try:
        return repr(value)
    except BaseException as error:  # it may raise SystemExit, too, which must stop nobody
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
