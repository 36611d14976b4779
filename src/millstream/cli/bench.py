"""`millstream bench`: Millstream beside its peers, and the other benchmarks of a checkout; there are none in an installed package."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from millstream.core.errors import ConfigInvalid, did_you_mean

COMPARISON = "compare"


def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Workloads or benchmarks, see --list; all workloads unless told.")] = None,
    list_them: Annotated[bool, typer.Option("--list", help="Only say which there are.")] = False,
    peer: Annotated[list[str] | None, typer.Option(help="Only this peer, may be repeated; all installed ones unless told.")] = None,
    variant: Annotated[list[str] | None, typer.Option(help="base, window10, keys10 or strings, may be repeated.")] = None,
    install: Annotated[list[str] | None, typer.Option(help="Install this peer first, or all: each in an environment of its own.")] = None,
    repeat: Annotated[int, typer.Option(help="Run each size so many times; the figures are those of the pair in the middle.")] = 1,
    scale: Annotated[float, typer.Option(help="How many times the rows; results are kept only at 1.")] = 1.0,
    work: Annotated[Path | None, typer.Option(help="Where the rows go, and stay for the next time.")] = None,
) -> None:
    """Time Millstream beside the peers that are installed, or run one of the other benchmarks."""
    scripts = find_benchmarks(_directory())
    workloads = find_workloads(_directory())
    if list_them:
        _list(workloads, {name: _about(path) for name, path in scripts.items() if name != COMPARISON})
        return
    for name in names or []:
        if name not in scripts and name not in workloads:
            hint = did_you_mean(name, [*workloads, *scripts]) or "See millstream bench --list."
            raise ConfigInvalid(f'there is no benchmark "{name}"', hint=hint)
    others = [name for name in names or [] if name in scripts]
    if others and (len(others) < len(names or []) or peer or variant or install or repeat != 1 or scale != 1.0 or work is not None):
        raise ConfigInvalid(f'"{others[0]}" is a benchmark of its own, beside which no workloads and no options go')
    if not others:
        options = [("--peer", peer), ("--variant", variant), ("--install", install)]
        given = [text for option, values in options for value in values or [] for text in (option, value)]
        where = ["--work", str(work)] if work is not None else []
        asked = [name for name in names or [] if name in workloads]
        _run(scripts[COMPARISON], [*asked, *given, "--repeat", str(repeat), "--scale", str(scale), *where])
    for name in others:
        typer.echo(f"== {name}")
        _run(scripts[name], [])


def _run(script: Path, arguments: list[str]) -> None:
    if subprocess.run([sys.executable, str(script), *arguments], check=False).returncode:
        raise typer.Exit(1)


def _list(workloads: dict[str, str], others: dict[str, str]) -> None:
    for heading, titles in {"Workloads, beside the peers that are installed:": workloads, "Other benchmarks:": others}.items():
        typer.echo(heading)
        for name, title in titles.items():
            typer.echo(f"  {name:24} {title}")


def find_workloads(directory: Path) -> dict[str, str]:
    """What each of them is, by name."""
    script = directory / f"{COMPARISON}.py"
    if not script.exists():
        return {}
    printed = subprocess.run([sys.executable, str(script), "--list"], check=True, capture_output=True, text=True).stdout
    return dict(line.split("\t") for line in printed.splitlines())


def find_benchmarks(directory: Path) -> dict[str, Path]:
    """The scripts of the directory that can be run, by name: those that say what to do as `__main__`."""
    found = {path.stem: path for path in sorted(directory.glob("*.py")) if '__name__ == "__main__"' in path.read_text(encoding="utf-8")}
    if not found:
        raise ConfigInvalid(
            f'there are no benchmarks in "{directory}"', hint="They come with the source: run this from a checkout of Millstream."
        )
    return found


def _directory() -> Path:
    """`benchmarks/` of the checkout that this package is installed from, else of the current directory."""
    checkout = Path(__file__).parents[3]
    return (checkout if (checkout / "pyproject.toml").exists() else Path.cwd()) / "benchmarks"


def _about(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n", 1)[0]
