"""What must not be shown: passwords, tokens and keys in OPTIONS, and passwords inside URLs.

    Options          what a statement said, with a repr that hides; `shown()` for people, `resolved()` for the reader or writer itself
    secret_ranges    where secrets stand in the text of a statement, however broken it is
    hide             any text without the secrets that are known, or that look like some

A value may name a variable of the environment instead of holding the secret: '${env:PGPASSWORD}'.  The name is no secret.

Rather too much is hidden than too little: an option is taken for a secret if its name holds `key`, `pass`, `auth` ... anywhere, or is
nearly such a name (`pasword`); only names that are known to be harmless, as `key.column` and `keystore`, are not.  Where a secret
ends may depend on how a text is read: then it is hidden up to the furthest end.
"""

from __future__ import annotations

import os
import re
import sys
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
    r"|(?<![a-z])(?:(?:primary|foreign|unique)[._\-]?keys?|(?:max|min|num)[._\-]?tokens?)(?![a-z])"
    r"|(?:mon|tur|don|jo?c|hoc)keys?|by[._\-]?pass|com[._\-]?pass|pass[._\-]?(?:through|enger|ive)|authors?(?![a-z])|authority"
)
_NEARLY = 0.8
"""How alike a name must be to one of a secret: one letter wrong, missing or moved."""
_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")

_BEFORE_CREDENTIALS = r"(?:[A-Za-z][\w+.\-]*://[^/@:\s]*:(?!\d{1,5}[/?#])|\bhttps?://(?=[^/@:\s]+@)|\bjdbc:oracle:\w+:[^/@\s]*/)"
"""Of `scheme://user:password@`, `https://token@` and `jdbc:oracle:thin:user/password@`.  A number before a path is a port."""
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
_MAY_HOLD_SECRETS = re.compile(r"[=:]|bearer|basic", re.IGNORECASE)
_LINE = re.compile(
    r"(?:^|(?<=[\s;,]))(?P<key>[\w.\-]+)\s*:(?!//)\s*(?:(?:bearer|basic|token|digest|apikey|negotiate)\s+)?(?=(?P<value>[^\r\n]+))",
    re.IGNORECASE,
)
"""Of headers and the like: `X-Api-Key: ...`, `Authorization: Token ...`."""

_PAIR = re.compile(r"(?:^|(?<=[?&#;\s,]))(?P<key>[\w.\-]+)\s*=\s*")
_SHORTEST = re.compile(r"[^&;\s,]+")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.|'')*'?|"(?:[^"\\]|\\.|"")*"?|\{(?:[^}]|\}\})*\}?""", re.DOTALL)
_IN_URL = re.compile(r"[^&\s]+")
_IN_DSN = re.compile(r"(?:\\.|\S)+", re.DOTALL)
_IN_LIST = re.compile(r"[^;\r\n]+")
_BEFORE_OTHERS_OF_A_LIST = re.compile(r"[^;\r\n]+(?=;\s*\w[\w .\-]*=)")
_BETWEEN_COMMAS = re.compile(r"[^,\s]+")

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
_KEY = re.compile(r"(?<![\w./\-?&;])[\w.\-\\]+(?=['\"`]?[\s=:'\"`(,]|['\"`]?(?:--|/\*))")
_ASSIGNING = re.compile(r"\s*[=:]\s*")
_WITH_OPTIONS = re.compile(r"\bopt\w*\b|\b(?:stream|relation|sink)\b|\bcreate\b(?!\s+query\b)|\b(?:from|into)\s+['\"]", re.IGNORECASE)
"""Any of the words that a statement with OPTIONS has: some of them may be misspelt."""
_WHERE_OPTIONS_MAY_BEGIN = re.compile(r"['\"]|\b(?:from|into|opt\w*)\b", re.IGNORECASE)
_CLAUSE_WORDS = {"TIMESTAMP", "SLACK", "IDLE", "PARTITION", "RETAIN", "FROM", "INTO", "OPTIONS"}
"""What may stand behind a column that is called `key`."""
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
"""In a text of SQL: \\u0077, \\U00000077, \\167, and \\w for w itself."""
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
        forms = (form for secret in found for form in (secret, unquote(secret), *_without_quotes(secret)))
        return sorted({form for form in forms if form}, key=len, reverse=True)

    def __repr__(self) -> str:
        return repr(self.shown())

    __str__ = __repr__


def _with_references(value: str, known: Mapping[str, str]) -> str:
    """A password inside a URL is written as URLs want it."""
    as_written = partial(quote, safe="") if "://" in value else str
    return _REFERENCE.sub(lambda found: as_written(known[found[1]]), value)


def _without_quotes(secret: str) -> Iterator[str]:
    """As it is once a connection string is read."""
    bare = secret[1:-1] if secret[:1] + secret[-1:] in ("''", '""', "{}") else secret
    yield from (secret.strip("'"), bare, re.sub(r"\\(.)", r"\1", bare))


def hide_value(key: str, value: str) -> str:
    if _REFERENCE.fullmatch(value):
        return value
    return HIDDEN if is_secret_key(key) else _replaced(value, list(_inside_option(value)))


def hide(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without these secrets, whole or cut off, and without what looks like one: `://user:...@`, `password=...`."""
    known = {secret for secret in secrets if secret}
    text = _without_long(text, [secret for secret in known if len(secret) >= _SHORTEST_PART])
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) < _SHORTEST_PART:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)  # as a word of its own
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
            if key.start() >= hidden_upto and is_secret_key(_unescaped(key[0])):
                values = [*_values_behind(sql, key), *_rest_of_text(sql, key)]
                hidden_upto = max([hidden_upto, *(end for _, end in values)])
                ranges += values
    return _joined(ranges)


def _pairs_in_texts(sql: str) -> Iterator[tuple[int, int]]:
    """`host=h password=p`, `?password=p` and `{"password": "p"}` inside one text."""
    for token in _TOKEN.finditer(sql):
        group = token.lastgroup
        if group is not None and _MAY_HOLD_SECRETS.search(token[0]):
            start = token.start(group)
            yield from ((start + left, start + right) for left, right in _inside_text(token[group]))


def _inside_text(written: str) -> list[tuple[int, int]]:
    """Where escapes and doubled quotes stand between, nobody knows where a secret ends: then nothing behind its beginning is shown."""
    found = list(_inside_option(written))
    read = re.sub(r"([\"'])\1", r"\1", _unescaped(written))
    if read == written or not (in_read := list(_inside_option(read))):
        return found
    is_seen = len(found) >= len(in_read)  # an escape may also hide the name of the option
    return [(min(start for start, _ in found) if is_seen else 0, len(written))]


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


def _rest_of_text(sql: str, key: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Of `key=...` or `key: ...` inside a text, which only seems to be outside if a quote is missing: everything up to the text's end."""
    quote_sign = max("'\"", key=lambda sign: sql.rfind(sign, 0, key.start()))
    before = sql[sql.rfind(quote_sign, 0, key.start()) : key.start()]
    sign = _ASSIGNING.match(sql, key.end())
    if sign is not None and before.startswith(quote_sign) and not re.search(r"[,(]", before):
        body = re.compile(rf"(?:[^{quote_sign}\\]|\\.|{quote_sign * 2})*", re.DOTALL).match(sql, sign.end())
        assert body is not None
        yield body.span()


def _unescaped(text: str) -> str:
    """As SQL reads it, as far as it matters for the names of options."""
    return _ESCAPE.sub(
        lambda found: found[4] or chr(min(int(found[1] or found[2] or found[3], 8 if found[3] else 16), sys.maxunicode)), text
    )


def _inside_option(text: str) -> Iterator[tuple[int, int]]:
    """In the value of an option lines may be headers; elsewhere they are words: KeyError: ..."""
    yield from _inside(text)
    yield from _values_of((found, "value") for found in _LINE.finditer(text) if is_secret_key(found["key"]))


def _inside(text: str) -> Iterator[tuple[int, int]]:
    """Secrets in a URL, in `key=value` pairs, in members of JSON and behind `Bearer`."""
    assigned = ((value, 0) for pair in _PAIR.finditer(text) if is_secret_key(pair["key"]) for value in _assigned(text, pair))
    members = ((found, found.lastgroup) for found in _MEMBER.finditer(text) if is_secret_key(found["key"]))
    alone = ((found, "value") for found in (_CREDENTIALS.search(text), *_HEADER.finditer(text)) if found)
    return _values_of((*assigned, *members, *alone))


def _values_of(found: Iterable[tuple[re.Match[str], str | int | None]]) -> Iterator[tuple[int, int]]:
    for match, group in found:
        assert group is not None
        if match[group] and not _REFERENCE.fullmatch(match[group]):
            yield match.span(group)


def _assigned(text: str, pair: re.Match[str]) -> Iterator[re.Match[str]]:
    """The values of `key=value`, as many as there are ways to read it: where it ends depends on what the whole is.

        a URL                     ?user=u&password=p&x=1            at &
        PostgreSQL's, and Java's  user=u password=my\\ secret x=1   at white space that has no backslash before it
        SQL Server's, and Azure's user=u;password=my secret;x=1     at ;
        others                    user=u,password=p,x=1             at ,

    and in each of them it may be quoted.
    """
    before = text[: pair.start()]
    readings = [_QUOTED if _QUOTED.match(text, pair.end()) else _SHORTEST]
    match before.rstrip()[-1:] if before[-1:].isspace() else before[-1:]:
        case "?" | "&" | "#":
            readings += [_IN_URL]
        case ";":
            readings += [_IN_LIST]
        case "," if not before[-1].isspace():
            readings += [_BETWEEN_COMMAS]
        case _:
            readings += [_BEFORE_OTHERS_OF_A_LIST]
    if not before or before[-1].isspace():
        readings += [_IN_DSN]
    return (value for reading in readings if (value := reading.match(text, pair.end())))


def _secrets_of(key: str, value: str) -> list[str]:
    if _REFERENCE.fullmatch(value):
        return []
    return [value] if is_secret_key(key) else [value[start:end] for start, end in _inside_option(value)]


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


def _without_long(text: str, secrets: list[str]) -> str:
    """Wherever the first characters of one stand, as far as it goes on; of several that begin alike, the one that goes on longest."""
    beginning = re.compile("|".join(re.escape(secret[:_SHORTEST_PART]) for secret in secrets) or r"(?!)")
    pieces, last = [], 0
    while found := beginning.search(text, last):
        pieces += [text[last : found.start()], HIDDEN]
        last = found.start() + max(_alike(secret, text[found.start() : found.start() + len(secret)]) for secret in secrets)
    return "".join([*pieces, text[last:]])


def _alike(secret: str, text: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(secret, text, strict=False)))
