"""`millstream test`: runs stream scripts and tells what did not hold."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from millstream.cli.opening import open_database
from millstream.cli.options import Master, read_text
from millstream.cli.scripts.batching import batching as batching_of
from millstream.cli.scripts.blocks import ScriptInvalid
from millstream.cli.scripts.format import Script, parse_script, rewrite
from millstream.cli.scripts.runner import Failure, OpenDatabase, Outcome, run_script
from millstream.core.errors import ConfigInvalid, MillstreamError

End = Literal["passed", "completed", "failed"]
KEYS = frozenset({"millstream", "spark"})
"""What `skipif` and `onlyif` may ask for here."""


def script_test(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Scripts (*.slt), or directories of them.")],
    complete: Annotated[bool, typer.Option("--complete", help="Rewrite the expected lines of checks that fail.")] = False,
    batching: Annotated[
        str, typer.Option(metavar="default|rows|one|random:SEED", help="Where the cuts between ticks fall; the outcome must not change.")
    ] = "default",
    master: Master = "local[*]",
) -> None:
    """Run stream scripts; exit status 1 if any of them fails."""
    files = find_scripts(paths)
    batching_of(batching, "")  # a bad option should not wait for Spark
    console = Console(highlight=False, soft_wrap=True)
    started = time.perf_counter()
    ends: Counter[End] = Counter()
    for path in files:
        # one Spark session serves all scripts: it is found again if it runs
        end = run_file(path, console, lambda location: open_database(location, master, tick_interval=None), batching, complete=complete)
        ends[end] += 1
    completed = f" {ends['completed']} completed," if complete else ""
    console.print(f"{ends['passed']} passed,{completed} {ends['failed']} failed in {time.perf_counter() - started:.1f} s")
    if ends["failed"]:
        raise typer.Exit(1)


def run_file(
    path: Path, console: Console, open_database: OpenDatabase, batching: str, *, complete: bool, keys: frozenset[str] = KEYS
) -> End:
    """Reads, runs and reports one script.  One that cannot be read has failed: the others are run all the same."""
    try:
        script = parse_script(read_text(path), str(path))
        if not script.blocks:
            raise ScriptInvalid(f"{path}: there is no block in it", hint="A script that checks nothing holds whatever happens.")
    except MillstreamError as error:
        report(console, Outcome(str(path), [Failure(0, "the script cannot be read", tuple(str(error).splitlines()))]))
        return "failed"
    outcome = run_one(script, open_database, batching, keys)
    if complete and outcome.replacements:
        # newline="": the script's own line ends are in the text
        path.write_text(rewrite(script, outcome.replacements), encoding="utf-8", newline="")
    report(console, outcome, complete=complete)
    if outcome.passed:
        return "passed"
    return "completed" if complete and all(failure.region for failure in outcome.failures) else "failed"


def find_scripts(paths: Iterable[Path]) -> list[Path]:
    """The scripts that are named, or lie somewhere below a directory that is, each once."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found |= dict.fromkeys(sorted(path.rglob("*.slt")))
        elif path.exists():
            found[path] = None
        else:
            raise ConfigInvalid(f'there is no "{path}"', hint="Name stream scripts (*.slt), or directories of them.")
    if not found:
        raise ConfigInvalid("no stream scripts were found", hint="Their names end in .slt.")
    return list(found)


def run_one(script: Script, open_database: OpenDatabase, batching: str, keys: frozenset[str] = KEYS) -> Outcome:
    """One script in a fresh temporary location."""
    with tempfile.TemporaryDirectory(prefix="millstream-test-") as location:
        try:
            return run_script(script, open_database, Path(location) / "db", batching_of(batching, Path(script.path).name), keys)
        except MillstreamError as error:
            return Outcome(script.path, [Failure(0, "the database could not be opened", tuple(str(error).splitlines()))])


def report(console: Console, outcome: Outcome, *, complete: bool = False) -> None:
    if outcome.passed:
        console.print(Text.assemble(("ok    ", "green"), outcome.path))
        return
    for failure in outcome.failures:
        verdict = ("done  ", "bold yellow") if complete and failure.region else ("FAIL  ", "bold red")
        place = f"{outcome.path}:{failure.line}" if failure.line else outcome.path
        console.print(Text.assemble(verdict, f"{place}: {failure.title}"))
        for line in _coloured(failure.details):
            console.print(line)


def _coloured(details: Sequence[str]) -> list[Text]:
    styles = {"missing": "red", "extra": "yellow"}
    return [Text("        " + line, style=styles.get(line.split(" ", 1)[0], "")) for line in details]
