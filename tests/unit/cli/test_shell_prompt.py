"""The shell's prompt: when Enter hands over, what Tab offers, where history goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory

from millstream.cli.shell_prompt import ShellCompleter, ends_input, history_file, open_history


@pytest.mark.parametrize("text", ["", "  ", "\\d", "\\explain SELECT 1", "SHOW STREAMS;", "SELECT 1\n;"])
def test_enter_hands_over(text: str) -> None:
    assert ends_input(text)


@pytest.mark.parametrize("text", ["SHOW STREAMS", "SELECT ';", "SELECT 1; SELECT"])
def test_enter_goes_on_to_the_next_line(text: str) -> None:
    assert not ends_input(text)


def offered(text: str) -> list[str]:
    completer = ShellCompleter(lambda: ["trades", "ts", "sym", "sym", "Volume"])
    return [completion.text for completion in completer.get_completions(Document(text), CompleteEvent())]


def test_names_come_before_keywords() -> None:
    assert offered("SELECT T") == ["trades", "ts", "THEN", "TIMEOUT", "TIMESTAMP", "TRUE"]
    assert offered("select s")[:1] == ["sym"]


def test_keywords_follow_the_case_of_what_is_typed() -> None:
    assert offered("SEL") == ["SELECT"]
    assert offered("sel") == ["select"]


def test_names_keep_their_own_case() -> None:
    assert offered("vol") == ["Volume"]


def test_nothing_is_offered_for_nothing() -> None:
    assert offered("") == offered("SELECT ") == offered("[") == []


def test_history_lives_in_the_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = history_file()
    assert path == tmp_path / "millstream" / "history"
    open_history(path).store_string("SHOW STREAMS;")
    assert "SHOW STREAMS;" in list(open_history(path).load_history_strings())


def test_history_that_cannot_be_kept_costs_only_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert isinstance(open_history(tmp_path / "file" / "history"), InMemoryHistory)
