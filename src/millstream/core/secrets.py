"""What must not be shown: passwords, tokens and keys in OPTIONS, and passwords inside URLs.

    Options          what a statement said, with a repr that hides; `shown()` for people, `resolved()` for the reader or writer itself
    secret_ranges    where secrets stand in the text of a statement, however broken it is
    hide             any text without the secrets that are known, or that look like some

A value may name a variable of the environment instead of holding the secret: '${env:PGPASSWORD}'.  The name is no secret.

Rather too much is hidden than too little: an option called `key.column` is taken for a key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import takewhile
from urllib.parse import quote, unquote

HIDDEN = "***"

_SECRET_PARTS = ("password", "passwd", "passphrase", "secret", "token", "credential", "jaas", "apikey", "accesskey", "privatekey")
_SECRET_WORDS = {"key", "keys", "pwd", "pass", "auth", "pw", "sas"}
_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")

_CREDENTIALS = re.compile(r"://[^/@:\s]*:(?P<value>.*)@", re.DOTALL)
_ASSIGNED = re.compile(r"(?:^|[?&;\s,])(?P<key>[\w.\-]+)\s*=\s*(?P<value>'(?:[^'\\]|\\.)*'?|[^&;\s,]+)", re.DOTALL)

_TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
  | [rRbBxX]?'(?P<text>(?:[^'\\]|\\.|'')*)(?:'|\Z)
  | [rRbBxX]?"(?P<quoted>(?:[^"\\]|\\.|"")*)(?:"|\Z)
  | `(?P<name>[^`]*)(?:`|\Z)
  | (?P<word>[^\s'"`,;()=]+)
  | (?P<sign>[,;()=])
    """,
    re.VERBOSE | re.DOTALL,
)
_URL = re.compile(r"(?P<quote>['\"`]?)[A-Za-z][\w+.\-]*://[^/@:\s]*:")
_KEY = re.compile(r"(?<![\w./\-?&;])[\w.\-]+(?=['\"`]?[\s=:'\"`(,]|['\"`]?(?:--|/\*))")
_WITH_OPTIONS = re.compile(r"\bopt\w*\b|\b(?:stream|relation|sink)\b|\bcreate\b(?!\s+query\b)|\b(?:from|into)\s+['\"]", re.IGNORECASE)
"""Any of the words that a statement with OPTIONS has: some of them may be misspelt."""
_WHERE_OPTIONS_MAY_BEGIN = re.compile(r"['\"]|\b(?:from|into|opt\w*)\b", re.IGNORECASE)
_CLAUSE_WORDS = {"TIMESTAMP", "SLACK", "IDLE", "PARTITION", "RETAIN", "FROM", "INTO", "OPTIONS"}
"""What may stand behind a column that is called `key`."""
_SHORTEST_PART = 6
"""So many characters of a secret are enough to know it again where a message has cut it off."""


def is_secret_key(key: str) -> bool:
    """Whether what an option of this name holds is to be hidden.

    >>> [is_secret_key(key) for key in ("password", "kafka.sasl.jaas.config", "fs.s3a.access.key", "apiKey", "path")]
    [True, True, True, True, False]
    """
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", key)}
    joined = re.sub(r"[^a-z0-9]", "", key.lower())
    return bool(words & _SECRET_WORDS) or any(part in joined for part in _SECRET_PARTS)


class Options(dict[str, str]):
    """The OPTIONS of a statement as they were written, secrets and references included; only what people see hides them."""

    def shown(self) -> dict[str, str]:
        return {key: hide_value(key, value) for key, value in self.items()}

    def resolved(self, environment: Mapping[str, str] | None = None) -> Options:
        """With the values that references stand for; KeyError, with the name, if there is no such variable."""
        known = os.environ if environment is None else environment
        return Options({key: _with_references(value, known) for key, value in self.items()})

    def secrets(self) -> list[str]:
        """The values to hide, as written and as they are once a URL is decoded; longest first."""
        found = [secret for key, value in self.items() for secret in _secrets_of(key, value)]
        for key, value in self.items():
            referred = {name: os.environ.get(name, "") for name in _REFERENCE.findall(value)}
            found += [*referred.values(), *(_secrets_of(key, _with_references(value, referred)) if referred else ())]
        return sorted({form for secret in found for form in (secret, unquote(secret)) if form}, key=len, reverse=True)

    def __repr__(self) -> str:
        return repr(self.shown())

    __str__ = __repr__


def _with_references(value: str, known: Mapping[str, str]) -> str:
    """A password inside a URL is written as URLs want it."""
    as_written = partial(quote, safe="") if "://" in value else str
    return _REFERENCE.sub(lambda found: as_written(known[found[1]]), value)


def hide_value(key: str, value: str) -> str:
    if _REFERENCE.fullmatch(value):
        return value
    return HIDDEN if is_secret_key(key) else _replaced(value, list(_inside(value)))


def hide(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without these secrets, whole or cut off, and without what looks like one: `://user:...@`, `password=...`."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = _without(text, secret)
    return _replaced(text, list(_inside(text)))


def hide_in_sql(sql: str) -> str:
    return _replaced(sql, secret_ranges(sql))


def shifted(ranges: list[tuple[int, int]], place: int) -> int:
    """Where a place of the text is after `hide_in_sql`; one inside a secret is at its beginning."""
    moved = place
    for start, end in ranges:
        if place >= end:
            moved -= (end - start) - len(HIDDEN)
        elif place > start:
            moved -= place - start
    return moved


# --- where secrets stand ------------------------------------------------------------------------


def secret_ranges(sql: str) -> list[tuple[int, int]]:
    """Characters [start, end) of the text that are secrets, in order.  Queries have no options: of them only URLs are looked at.

    A quote or a comment that is never closed turns texts inside out.  So keys and URLs are looked for everywhere, whether they seem
    to stand inside a text or not, and what follows is read from there.
    """
    ranges = [*_pairs_in_texts(sql), *_credentials(sql)]
    if _WITH_OPTIONS.search(sql) and (begin := _WHERE_OPTIONS_MAY_BEGIN.search(sql)):
        hidden_upto = 0  # a word of a secret is no key
        for key in _KEY.finditer(sql, begin.start()):
            if key.start() >= hidden_upto and is_secret_key(key[0]):
                values = list(_values_behind(sql, key))
                hidden_upto = max([hidden_upto, *(end for _, end in values)])
                ranges += values
    return _joined(ranges)


def _pairs_in_texts(sql: str) -> Iterator[tuple[int, int]]:
    """`host=h password=p` and `?password=p` inside one text."""
    for token in _TOKEN.finditer(sql):
        group = token.lastgroup
        if group is not None and "=" in token[0]:
            start = token.start(group)
            yield from ((start + left, start + right) for left, right in _inside(token[group]))


def _credentials(sql: str) -> Iterator[tuple[int, int]]:
    for url in _URL.finditer(sql):
        quote_sign = url["quote"]
        body = re.compile(rf"(?:[^{quote_sign}\\]|\\.|{quote_sign * 2})*" if quote_sign else r"\S*", re.DOTALL).match(sql, url.end())
        assert body is not None
        last = sql.rfind("@", *body.span())
        if last < 0 and quote_sign and body.end() == len(sql):
            last = body.end()  # cut off: what is there belongs to the password
        if last > url.end() and not _REFERENCE.fullmatch(sql[url.end() : last]):
            yield url.end(), last


def _values_behind(sql: str, key: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Texts, numbers, and words where a text was forgotten its quotes; several in a row are all hidden."""
    start = key.end() + (sql[key.end() : key.end() + 1] in tuple("'\"`") and sql[key.start() - 1] == sql[key.end()])
    separated = False
    for token in _TOKEN.finditer(sql, start):
        group = token.lastgroup
        if group == "comment":
            continue
        if group == "sign":
            if token[0] in ");":
                return
            separated = separated or token[0] != "="
            continue
        assert group is not None
        if (group != "text" and (separated or token[group].upper() in _CLAUSE_WORDS)) or _REFERENCE.fullmatch(token[group]):
            return
        yield token.span(group)


def _inside(text: str) -> Iterator[tuple[int, int]]:
    """Secrets in a URL or in `key=value` pairs."""
    found = _CREDENTIALS.search(text)
    if found and found["value"] and not _REFERENCE.fullmatch(found["value"]):
        yield found.span("value")
    for pair in _ASSIGNED.finditer(text):
        if is_secret_key(pair["key"]) and not _REFERENCE.fullmatch(pair["value"]):
            yield pair.span("value")


def _secrets_of(key: str, value: str) -> list[str]:
    if _REFERENCE.fullmatch(value):
        return []
    return [value] if is_secret_key(key) else [value[start:end] for start, end in _inside(value)]


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        elif end > start:
            joined.append((start, end))
    return joined


# --- taking them out ----------------------------------------------------------------------------


def _replaced(text: str, ranges: list[tuple[int, int]]) -> str:
    pieces, last = [], 0
    for start, end in _joined(ranges):
        pieces += [text[last:start], HIDDEN]
        last = end
    return "".join([*pieces, text[last:]])


def _without(text: str, secret: str) -> str:
    """A short secret as a word of its own; a longer one wherever its first characters stand, as far as it goes on."""
    if len(secret) < _SHORTEST_PART:
        return re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text) if secret else text
    pieces, last = [], 0
    while (start := text.find(secret[:_SHORTEST_PART], last)) >= 0:
        pieces += [text[last:start], HIDDEN]
        last = start + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(secret, text[start:], strict=False)))
    return "".join([*pieces, text[last:]])
