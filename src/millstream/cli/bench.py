"""`millstream bench`: runs the benchmarks of a checkout; there are none in an installed package."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from millstream.core.errors import ConfigInvalid, did_you_mean


def bench(
    name: Annotated[str | None, typer.Argument(help="One of --list; without it, all of them in turn.")] = None,
    list_them: Annotated[bool, typer.Option("--list", help="Only say which there are.")] = False,
) -> None:
    """Run the benchmarks, side by side with the peers that are installed."""
    scripts = find_benchmarks(_directory())
    if list_them:
        for key, path in scripts.items():
            typer.echo(f"{key:24} {_about(path)}")
        return
    if name is not None and name not in scripts:
        raise ConfigInvalid(f'there is no benchmark "{name}"', hint=did_you_mean(name, scripts) or "See millstream bench --list.")
    for path in scripts.values() if name is None else [scripts[name]]:
        typer.echo(f"== {path.stem}")
        status = subprocess.run([sys.executable, str(path)], check=False).returncode
        if status:
            raise typer.Exit(1)


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
