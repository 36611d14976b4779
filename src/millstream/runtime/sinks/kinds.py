"""From a statement to a sink: the kinds there are, and what can be told about each before it is opened."""

from __future__ import annotations

from pathlib import Path

from millstream.core.errors import ConfigInvalid, NotSupported, did_you_mean
from millstream.runtime.sinks import postgres
from millstream.runtime.sinks.console import ConsoleSink
from millstream.runtime.sinks.delta import DeltaSink, table_path
from millstream.runtime.sinks.files import FILE_FORMATS, FileSink, check_directory, file_directory
from millstream.runtime.sinks.local_path import local_path
from millstream.runtime.sinks.postgres import PostgresSink, check_postgres
from millstream.runtime.sinks.sink import Sink, SinkTarget
from millstream.state.location import Location

FORMATS = ("console", *FILE_FORMATS, "delta", "postgres")
_OPTIONS = {"console": (), **dict.fromkeys(FILE_FORMATS, ("path",)), "postgres": postgres.OPTIONS}
"""Those that a kind knows.  A Delta table takes all that its object store takes."""


def check_sink(target: SinkTarget, location: Location) -> None:
    """Whether the statement can be meant; nothing here waits for anybody."""
    if target.format not in FORMATS:
        raise NotSupported(
            f'no sink of format "{target.format}"', hint=did_you_mean(target.format, FORMATS) or f"Formats: {', '.join(FORMATS)}."
        )
    known = _OPTIONS.get(target.format)
    for key in target.options:
        if known is not None and key not in known:
            hint = did_you_mean(key, known) or (f"It takes {', '.join(known)}." if known else "It takes none.")
            raise ConfigInvalid(f'a sink of format "{target.format}" has no option "{key}"', hint=hint)
    location.sink_path(target.name)  # a name that no file can have is refused here
    match target.format:
        case "delta":
            if (local := local_path(table_path(target))) is not None:
                _outside(local, target, location)
        case "postgres":
            check_postgres(target)
        case "console":
            return
        case _:
            _outside(file_directory(target), target, location)
            check_directory(target)


def open_sink(target: SinkTarget, location: Location) -> Sink:
    match target.format:
        case "console":
            return ConsoleSink(target, location.sink_path(target.name))
        case "delta":
            return DeltaSink(target)
        case "postgres":
            return PostgresSink(target)
        case _:
            return FileSink(target)


def _outside(path: Path, target: SinkTarget, location: Location) -> None:
    if "\0" in str(path):
        raise ConfigInvalid(f'sink "{target.name}" has a path with the character NUL', hint="No file can have such a name.")
    if path.resolve().is_relative_to(location.path.resolve()):
        raise ConfigInvalid(
            f'sink "{target.name}" cannot write to "{path}": that is inside the database\'s own location',
            hint="Choose a directory outside; results can be read in place as Delta tables.",
        )
