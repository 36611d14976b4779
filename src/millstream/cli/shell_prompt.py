"""The prompt of the shell: history, completion, and lines that go on until their semicolon."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from millstream.cli.statements import is_complete
from millstream.core.secrets import hide_in_sql

KEYWORDS = (
    "ALTER", "AND", "AS", "BEGIN", "BETWEEN", "BY", "CASE", "CAST", "CREATE", "DAYS", "DELETE", "DESCRIBE", "DISTINCT", "DROP",
    "DSTREAM", "ELSE", "END", "EXCLUSIVE", "EXISTS", "EXPLAIN", "FALSE", "FROM", "GROUP", "HAVING", "HOURS", "IDLE", "IF", "IN",
    "INSERT", "INTO", "INVOKE", "IS", "ISTREAM", "KEY", "LIKE", "MILLISECONDS", "MINUTES", "NOT", "NOW", "NULL", "OF", "OPTIONS", "OR",
    "PARTITION", "PAUSE", "PRIMARY", "QUERIES", "QUERY", "RANGE", "REGISTER", "REGISTERED", "RELATION", "RELATIONS",
    "RESUME", "RETAIN", "ROWS", "RSTREAM",
    "SECONDS", "SELECT", "SET", "SHARING", "SHOW", "SINK", "SINKS", "SLACK", "SLIDE", "START", "STREAM", "STREAMS", "THEN", "TIMEOUT",
    "TIMESTAMP", "TRUE", "UNBOUNDED", "UNREGISTER", "VALUES", "WHEN", "WHERE", "WINDOW", "avg", "count", "max", "min", "sum",
)  # fmt: skip


class ShellCompleter(Completer):
    """Keywords, and the names that `names` gives at the moment: objects and their columns."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        word = document.get_word_before_cursor(WORD=False)
        if not word or not (word[0].isalpha() or word[0] == "_"):
            return
        start = word.lower()
        names = sorted(name for name in set(self._names()) if name.lower().startswith(start))
        words = [keyword for keyword in KEYWORDS if keyword.lower().startswith(start)]
        for text in dict.fromkeys([*names, *words]):
            # who types small letters wants small letters back
            yield Completion(text if text in names or word.isupper() else text.lower(), start_position=-len(word))


def ends_input(text: str) -> bool:
    """Whether Enter hands the text over: a command, nothing at all, or statements with their semicolon."""
    return not text.strip() or text.lstrip().startswith("\\") or is_complete(text)


def history_file() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "millstream" / "history"


class _SecretlessHistory(FileHistory):
    """What is typed can be recalled as it was as long as the shell runs; the file never holds the secrets of its OPTIONS."""

    def store_string(self, string: str) -> None:
        super().store_string(hide_in_sql(string))


def open_history(path: Path) -> History:
    """Kept in a file; a directory that cannot be written costs the history, not the shell."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return _SecretlessHistory(str(path))


def make_prompt(names: Callable[[], Iterable[str]]) -> PromptSession[str]:
    session: PromptSession[str] = PromptSession(
        "millstream> ",
        prompt_continuation="        ... ",
        multiline=Condition(lambda: not ends_input(session.default_buffer.text)),
        history=open_history(history_file()),
        completer=ShellCompleter(names),
        complete_while_typing=False,
        enable_history_search=True,
    )
    return session
