"""What must not be shown: passwords, tokens and keys in OPTIONS, and passwords inside URLs.

    Options          what a statement said, with a repr that hides; `shown()` for people, `resolved()` for the reader or writer itself
    secret_ranges    where secrets stand in the text of a statement, however broken it is
    hide             any text without the secrets that are known, or that look like some

A value may name a variable of the environment instead of holding the secret: '${env:PGPASSWORD}'.  The name is no secret.

Rather too much is hidden than too little: an option is taken for a secret if its name holds `key`, `pass`, `auth` ... anywhere, or is
nearly such a name (`pasword`); only names that are known to be harmless, as `key.column` and `keystore`, are not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache, partial
from itertools import takewhile
from urllib.parse import quote, unquote

HIDDEN = "***"

_SECRET_PART = re.compile(r"key|pass|pwd|secret|token|auth|credential|signature|bearer|jaas|hmac|cookie")
_SECRET_WORD = re.compile(r"(?<![a-z])(?:sig|sas|pw|psk|jwt)(?![a-z])")
"""Parts of so many words that they must stand alone: de-sig-n, sas-l."""
_SECRET_NAMES = ("password", "passphrase", "secret", "token", "authorization", "credential", "credentials", "signature", "bearer", "apikey")
_HARMLESS = re.compile(
    r"key[._\-]?(?:columns?|fields?|format|(?:de)?serializer|space|store|words?|board)|(?:partition|sort|row|record|message)[._\-]?keys?"
    r"|(?:mon|tur|don|jo?c|hoc)keys?|by[._\-]?pass|com[._\-]?pass|pass[._\-]?(?:through|enger|ive)|authors?(?![a-z])|authority"
)
_NEARLY = 0.8
"""How alike a name must be to one of a secret: one letter wrong, missing or moved."""
_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")

_BEFORE_CREDENTIALS = r"(?:[A-Za-z][\w+.\-]*://[^/@:\s]*:|\bhttps?://(?=[^/@:\s]+@)|\bjdbc:oracle:\w+:[^/@\s]*/)"
"""Of `scheme://user:password@`, `https://token@` and `jdbc:oracle:thin:user/password@`."""
_CREDENTIALS = re.compile(rf"{_BEFORE_CREDENTIALS}(?P<value>.*)@", re.DOTALL | re.IGNORECASE)
_HEADER = re.compile(r"\b(?:bearer|basic)\s+(?P<value>[\w\-.~+/]{6,}=*)", re.IGNORECASE)
_MEMBER = re.compile(
    r"""
    ["'](?P<key>[\w.\-]+)\\*["']\s*:\s*
    (?=\\*"(?P<double>(?:[^"\\]|\\.)*)|\\*'(?P<single>(?:[^'\\]|\\.)*)|(?P<more>[\[{].*)|(?P<bare>[^\s,}\]]+))
    """,
    re.VERBOSE | re.DOTALL,
)
"""Of JSON, which may be inside of a text of JSON.  Of a secret array or object, and of what is behind it, nothing is shown."""
_MAY_HOLD_SECRETS = re.compile(r"=|[\"']\s*:|bearer|basic", re.IGNORECASE)
_ASSIGNED = re.compile(r"(?:^|[?&#;\s,])(?P<key>[\w.\-]+)\s*=\s*(?P<value>'(?:[^'\\]|\\.)*'?|[^&;\s,]+)", re.DOTALL)

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
_URL = re.compile(rf"(?P<quote>['\"`]?){_BEFORE_CREDENTIALS}", re.IGNORECASE)
_KEY = re.compile(r"(?<![\w./\-?&;])[\w.\-]+(?=['\"`]?[\s=:'\"`(,]|['\"`]?(?:--|/\*))")
_WITH_OPTIONS = re.compile(r"\bopt\w*\b|\b(?:stream|relation|sink)\b|\bcreate\b(?!\s+query\b)|\b(?:from|into)\s+['\"]", re.IGNORECASE)
"""Any of the words that a statement with OPTIONS has: some of them may be misspelt."""
_WHERE_OPTIONS_MAY_BEGIN = re.compile(r"['\"]|\b(?:from|into|opt\w*)\b", re.IGNORECASE)
_CLAUSE_WORDS = {"TIMESTAMP", "SLACK", "IDLE", "PARTITION", "RETAIN", "FROM", "INTO", "OPTIONS"}
"""What may stand behind a column that is called `key`."""
_SHORTEST_PART = 6
"""So many characters of a secret are enough to know it again where a message has cut it off."""


@lru_cache(maxsize=1024)
def is_secret_key(key: str) -> bool:
    """Whether what an option of this name holds is to be hidden.

    >>> [is_secret_key(key) for key in ("dbpwd", "kafka.sasl.jaas.config", "mySig", "pasword", "path", "keyColumns", "design")]
    [True, True, True, True, False, False, False]
    """
    name = _HARMLESS.sub(" ", key.lower())
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", key).lower()
    return bool(_SECRET_PART.search(name) or _SECRET_WORD.search(apart)) or any(map(_is_nearly_secret, re.findall(r"[a-z]{4,}", name)))


def _is_nearly_secret(word: str) -> bool:
    return bool(get_close_matches(word, _SECRET_NAMES, n=1, cutoff=_NEARLY))


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
        forms = (form for secret in found for form in (secret, unquote(secret), secret.strip("'")))
        return sorted({form for form in forms if form}, key=len, reverse=True)

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
    """`host=h password=p`, `?password=p` and `{"password": "p"}` inside one text."""
    for token in _TOKEN.finditer(sql):
        group = token.lastgroup
        if group is not None and _MAY_HOLD_SECRETS.search(token[0]):
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
    """Secrets in a URL, in `key=value` pairs, in members of JSON and behind `Bearer`."""
    pairs = [
        (found, found.lastgroup) for pattern in (_ASSIGNED, _MEMBER) for found in pattern.finditer(text) if is_secret_key(found["key"])
    ]
    alone = [(found, "value") for found in (_CREDENTIALS.search(text), *_HEADER.finditer(text)) if found]
    for found, group in (*pairs, *alone):
        assert group is not None
        if found[group] and not _REFERENCE.fullmatch(found[group]):
            yield found.span(group)


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
