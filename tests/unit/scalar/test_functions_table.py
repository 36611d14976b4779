"""The table of functions: complete in the corpus, on its page, and clear about what is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from millstream.core.errors import FunctionNotFound, NotSupported
from millstream.language.functions_known import AGGREGATES, KNOWN, VOLATILE
from millstream.language.functions_lambda import HIGHER_ORDER
from millstream.language.functions_page import page
from millstream.language.functions_table import BY_NAME, SUBJECTS, find
from unit.scalar.evaluation import CORPUS

PAGE = Path(__file__).parents[3] / "docs" / "functions.md"


def test_every_function_is_compared_with_spark() -> None:
    text = CORPUS.read_text()
    assert [name for name in (*BY_NAME, *HIGHER_ORDER) if not re.search(rf"\b{name}\(", text)] == []


def test_the_page_of_functions_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python -m millstream.language.functions_page > docs/functions.md"


def test_there_are_many_functions_each_named_once() -> None:
    names = [name for functions in SUBJECTS.values() for function in functions for name in function.names]
    assert len(names) == len(set(names)) == len(BY_NAME)
    assert len(BY_NAME) + len(HIGHER_ORDER) >= 250
    assert not BY_NAME.keys() & HIGHER_ORDER.keys()


def test_every_function_is_one_of_sparks() -> None:
    assert BY_NAME.keys() | HIGHER_ORDER.keys() <= KNOWN | {"timestampadd", "timestampdiff"}
    assert not KNOWN & (VOLATILE | AGGREGATES)
    assert not BY_NAME.keys() & (VOLATILE | AGGREGATES)


def test_what_is_missing_says_why() -> None:
    for name in sorted(KNOWN - BY_NAME.keys() - HIGHER_ORDER.keys()) + sorted(VOLATILE) + sorted(AGGREGATES):
        with pytest.raises(NotSupported):
            find(name)
    with pytest.raises(FunctionNotFound):
        find("no_such_function")
