"""The text of stream scripts: into blocks, and back with other expected lines."""

from __future__ import annotations

import pytest

from millstream.cli.scripts.blocks import Advance, Changes, CreateQuery, Push, QueryOnce, Restart, Result, ScriptInvalid, Statement
from millstream.cli.scripts.format import Script, parse_script, rewrite, signed


def parse(text: str) -> Script:
    return parse_script(text, "x.slt")


EVERY_KIND = """\
# a comment, then a block right below it
statement ok
CREATE STREAM s (ts TIMESTAMP, a STRING)
  TIMESTAMP BY ts

statement error COLUMN_NOT_FOUND
SELECT b FROM s

query q
SELECT a FROM s [NOW]
# in the middle
WHERE a <> '#'

push s
0,A
# between rows
4,"B
# not a comment

still one row"

advance 4

advance s 1970-01-01T00:00:05Z

changes q
+ A
-

changes q by instant
@0 + A
@10.000001 -

result q
A
+

query once
SELECT a FROM q
----
A

restart
"""


def test_every_kind_of_block_is_read() -> None:
    blocks = parse(EVERY_KIND).blocks
    kinds = [Statement, Statement, CreateQuery, Push, Advance, Advance, Changes, Changes, Result, QueryOnce, Restart]
    assert [type(block) for block in blocks] == kinds
    created, refused, query, push, advance, advance_one, changes, by_instant, result, once, _ = blocks
    assert isinstance(created, Statement)
    assert created.sql == "CREATE STREAM s (ts TIMESTAMP, a STRING)\n  TIMESTAMP BY ts"
    assert created.error is None
    assert isinstance(refused, Statement)
    assert refused.error == "COLUMN_NOT_FOUND"
    assert isinstance(query, CreateQuery)
    assert (query.name, query.sql) == ("q", "SELECT a FROM s [NOW]\nWHERE a <> '#'")
    assert isinstance(push, Push)
    assert [record.text for record in push.rows] == ["0,A", '4,"B\n# not a comment\n\nstill one row"']
    assert [record.line for record in push.rows] == [15, 17]
    assert isinstance(advance, Advance)
    assert (advance.stream, advance.instant) == (None, 4_000_000)
    assert isinstance(advance_one, Advance)
    assert (advance_one.stream, advance_one.instant) == ("s", 5_000_000)
    assert isinstance(changes, Changes)
    assert [(change.sign, change.record.text, change.instant) for change in changes.expected] == [(1, "A", None), (-1, "", None)]
    assert isinstance(by_instant, Changes)
    assert [(change.sign, change.record.text, change.instant) for change in by_instant.expected] == [(1, "A", 0), (-1, "", 10_000_001)]
    assert isinstance(result, Result)
    assert [record.text for record in result.expected] == ["A", ""]
    assert isinstance(once, QueryOnce)
    assert (once.sql, [record.text for record in once.expected]) == ("SELECT a FROM q", ["A"])


def test_conditions_choose_blocks_by_key() -> None:
    script = parse("skipif spark\nrestart\n\nonlyif Spark\nrestart\n\nonlyif spark\nskipif millstream\nrestart\n")
    assert [block.applies(frozenset({"spark", "millstream"})) for block in script.blocks] == [False, True, False]
    assert [block.applies(frozenset({"millstream"})) for block in script.blocks] == [True, False, False]


def test_a_signed_row_needs_a_space_behind_its_sign() -> None:
    block = parse("push r\n- A,1\n+ B,2\n-5,C\n-\nD\n").blocks[0]
    assert isinstance(block, Push)
    assert [(change.sign, change.record.text) for change in map(signed, block.rows)] == [
        (-1, "A,1"),
        (1, "B,2"),
        (1, "-5,C"),
        (-1, ""),
        (1, "D"),
    ]


def test_push_at_an_instant() -> None:
    block = parse("push r @12.5\nA\n").blocks[0]
    assert isinstance(block, Push)
    assert (block.target, block.at) == ("r", 12_500_000)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("\nchangse q\n", "x.slt:2", "no kind of block"),
        ("statement maybe\nSELECT 1\n", "x.slt:1", "`ok` or `error`"),
        ("statement ok\n\n", "x.slt:1", "SQL is missing"),
        ("statement error (\nSELECT 1\n", "x.slt:1", "regular expression"),
        ("query\nSELECT 1\n", "x.slt:1", "wants a name"),
        ("query once\nSELECT 1\n", "x.slt:1", "----"),
        ("advance soon\n", "x.slt:1", "not an instant"),
        ("advance 5\npush s\n", "x.slt:2", "no lines below"),
        ("advance 0.0000001\n", "x.slt:1", "not an instant"),
        ("changes q\nA,1\n", "x.slt:2", "a change is written"),
        ("changes q\n@1 + A\n", "x.slt:2", "a change is written"),
        ("changes q by instant\n+ A\n", "x.slt:2", "a change is written"),
        ("changes q by instant\n@2 + A\n@1 + A\n", "x.slt:3", "order of their instants"),
        ("changes q by row\n", "x.slt:1", "by instant"),
        ("result\n", "x.slt:1", "name of a query"),
        ("restart now\n", "x.slt:1", "takes nothing"),
        ("skipif\nrestart\n", "x.slt:1", "one key"),
        ("onlyif spark\n", "x.slt:1", "without a block"),
        ('push s\n0,"A\n', "x.slt:2", "never closed"),
        ("push\n0\n", "x.slt:1", "push wants"),
    ],
)
def test_a_damaged_script_is_refused_at_its_line(text: str, place: str, words: str) -> None:
    with pytest.raises(ScriptInvalid) as caught:
        parse(text)
    assert caught.value.message.startswith(place)
    assert words in caught.value.message
    assert caught.value.code == "SCRIPT_INVALID"


def test_a_misspelt_kind_is_recognised() -> None:
    with pytest.raises(ScriptInvalid) as caught:
        parse("changse q\n")
    assert caught.value.hint == 'Did you mean "changes"?'


def test_a_quoted_cell_keeps_its_line_ends() -> None:
    block = parse('push s\r\n0,"a\r\nb\n\rc"\r\n').blocks[0]
    assert isinstance(block, Push)
    assert [record.text for record in block.rows] == ['0,"a\r\nb\n\rc"']


def region(script: Script, index: int) -> object:
    return script.blocks[index].region  # type: ignore[union-attr]


def test_rewriting_nothing_gives_the_file_back_byte_for_byte() -> None:
    for text in (EVERY_KIND, EVERY_KIND.replace("\n", "\r\n"), EVERY_KIND.rstrip("\n"), "", "# only\u2028a comment\x0b"):
        assert rewrite(parse(text), {}) == text


def test_rewriting_touches_expected_lines_only() -> None:
    text = "push s\n0,A\n\nchanges q\n# why\n+ A\n# and why\n- B\n# trailing\n\n  \nresult q\n# end\n"
    script = parse(text)
    changed = rewrite(script, {region(script, 1): ["+ C"], region(script, 2): ["C", "D"]})
    assert changed == "push s\n0,A\n\nchanges q\n# why\n# and why\n+ C\n# trailing\n\n  \nresult q\nC\nD\n# end\n"


def test_rewriting_keeps_the_line_ends_and_completes_the_last_line() -> None:
    script = parse("result q\r\nA\r\n\r\nresult q")
    assert rewrite(script, {region(script, 0): ["B"], region(script, 1): ["C"]}) == "result q\r\nB\r\n\r\nresult q\r\nC\r\n"


def test_the_hint_at_an_unknown_block_names_conditions_too() -> None:
    with pytest.raises(ScriptInvalid) as caught:
        parse("xyzzy q\n")
    assert caught.value.hint is not None
    assert "skipif, onlyif" in caught.value.hint
    with pytest.raises(ScriptInvalid) as caught:
        parse("skipfi spark\nresult q\n")
    assert caught.value.hint == 'Did you mean "skipif"?'
