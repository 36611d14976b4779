"""The `millstream` program: its commands, and the edge where every error becomes a message.

A user's mistake is one error in the project's form and exit status 1, never a traceback.  What we did
not expect is a bug of ours and says so.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Sequence

import typer
from typer.exceptions import TyperException

from millstream.cli.bench import bench
from millstream.cli.demo import demo
from millstream.cli.explain import explain
from millstream.cli.run import run
from millstream.cli.script_test import script_test
from millstream.cli.shell import shell
from millstream.core.errors import MillstreamError
from millstream.core.secrets import hide

INTERRUPTED = 130

app = typer.Typer(
    name="millstream",
    help="Continuous queries in CQL on Spark, exact at every instant.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo)
app.command("run")(run)
app.command("shell")(shell)
app.command("test")(script_test)
app.command("explain")(explain)
app.command("bench")(bench)


def main() -> None:
    """Entry point of the installed program."""
    sys.exit(run_program(sys.argv[1:]))


def run_program(arguments: Sequence[str]) -> int:
    """Runs one command; its exit status."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        status = int(app(list(arguments), standalone_mode=False) or 0)
    except MillstreamError as error:
        return _fail(str(error))
    except TyperException as error:
        return _fail(f"[USAGE] {error.format_message()}\n  hint: See `millstream --help`, or `millstream COMMAND --help`.")
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except BrokenPipeError:
        # the reader of our output has gone; Python would complain once more when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        return _fail(_internal(error))
    if status == INTERRUPTED:  # typer may have caught it before us
        print("interrupted", file=sys.stderr)
    return status


def _fail(text: str) -> int:
    print(text, file=sys.stderr)
    return 1


def _internal(error: Exception) -> str:
    if os.environ.get("MILLSTREAM_DEBUG"):
        return hide(f"{traceback.format_exc().rstrip()}\n[INTERNAL] {type(error).__name__}: {error}")
    hint = "This is a bug of Millstream. Run again with MILLSTREAM_DEBUG=1 and report what it shows, with the statement you ran."
    return f"[INTERNAL] {type(error).__name__}: {hide(str(error))}\n  hint: {hint}"


if __name__ == "__main__":
    main()
