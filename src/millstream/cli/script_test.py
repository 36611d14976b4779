"""`millstream test`: runs stream scripts and tells what did not hold."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from millstream.cli.opening import open_database
from millstream.cli.options import Master, read_text
from millstream.cli.scripts.batching import batching as batching_of
from millstream.cli.scripts.format import Script, parse_script, rewrite
from millstream.cli.scripts.runner import Failure, OpenDatabase, Outcome, run_script
from millstream.core.errors import ConfigInvalid, MillstreamError

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
    scripts = [parse_script(read_text(path), str(path)) for path in files]
    console = Console(highlight=False, soft_wrap=True)
    started = time.perf_counter()
    outcomes = []
    for script in scripts:
        # one Spark session serves all scripts: it is found again if it runs
        outcome = run_one(script, lambda location: open_database(location, master, tick_interval=None), batching)
        outcomes.append(outcome)
        report(console, outcome)
        if complete and outcome.replacements:
            # newline="": the script's own line ends are in the text
            Path(script.path).write_text(rewrite(script, outcome.replacements), encoding="utf-8", newline="")
            console.print(f"completed {script.path}")
    passed = sum(outcome.passed for outcome in outcomes)
    console.print(f"{passed} passed, {len(outcomes) - passed} failed in {time.perf_counter() - started:.1f} s")
    if passed < len(outcomes):
        raise typer.Exit(1)


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


def report(console: Console, outcome: Outcome) -> None:
    if outcome.passed:
        console.print(Text.assemble(("ok    ", "green"), outcome.path))
        return
    for failure in outcome.failures:
        console.print(Text.assemble(("FAIL  ", "bold red"), f"{outcome.path}:{failure.line}: {failure.title}"))
        for line in _coloured(failure.details):
            console.print(line)


def _coloured(details: Sequence[str]) -> list[Text]:
    styles = {"missing": "red", "extra": "yellow"}
    return [Text("        " + line, style=styles.get(line.split(" ", 1)[0], "")) for line in details]
