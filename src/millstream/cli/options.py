"""Options that several commands share, and the file they read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from millstream.core.errors import ConfigInvalid

Location = Annotated[
    Path | None,
    typer.Option("--location", help="Directory that keeps streams and results; without it a temporary one.", file_okay=False),
]
Master = Annotated[str, typer.Option("--master", help="Where Spark runs: local[*] is all cores of this machine.")]
ScriptFile = Annotated[Path, typer.Argument(metavar="FILE.cql", help="Statements, separated by semicolons.")]


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "it is not UTF-8 text"
        raise ConfigInvalid(f'cannot read "{path}": {reason}', hint="Check the path, from the directory you are in.") from None
