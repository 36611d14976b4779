"""Worker processes that a Python function took with it: which call it was, and how the stage goes on without its query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from millstream.core.errors import FunctionFailed
from millstream.operators.call_note import read_note
from millstream.runtime.messages import FragmentResult, MapTask, StageResult, StageTask

Run = Callable[[Sequence[StageTask]], list[StageResult]]


def note_of(task: StageTask | MapTask) -> Path:
    """Where the task's process says which call it is in, for as long as it is in it."""
    name = f"stage-{task.bucket}" if isinstance(task, StageTask) else f"map-{task.part}"
    return Path(task.exchange_dir) / f"calling-{name}.json"


def run_around(tasks: Sequence[StageTask], run: Run) -> list[StageResult]:
    """The stage, run again without the queries whose functions ended a process; their part is an error.

    Buckets that were done give the same results again; one that has lost its process says that its caches are missing.  Where Spark
    itself tries a lost task again, and it goes well, the machine was to blame and not the function that happened to be called.
    """
    try:
        results = run(tasks)
    except Exception:
        lost = _lost_calls(tasks)
        if not lost:
            raise
    else:
        for path in map(note_of, tasks):
            path.unlink(missing_ok=True)
        return results
    results = run_around(rest, run) if (rest := _without(tasks, set(lost))) else [StageResult(tasks[0].bucket, ())]
    errors = tuple(
        FragmentResult(fragment.incarnation, fragment.number, tasks[0].bucket, error=lost[fragment.incarnation])
        for fragment in tasks[0].fragments
        if fragment.incarnation in lost
    )
    return [replace(results[0], fragments=results[0].fragments + errors), *results[1:]]


def _lost_calls(tasks: Sequence[StageTask]) -> dict[str, FunctionFailed]:
    """By the query that called: after a stage no call is under way, so what is noted ended with its process."""
    found = {}
    for path in map(note_of, tasks):
        try:
            owner, told = read_note(path)
        except FileNotFoundError:
            continue
        except ValueError:  # the process ended before the call began
            path.unlink()
            continue
        path.unlink()
        found[owner] = FunctionFailed(
            f"{told}: it ended its process, or had to be ended with it",
            hint="It ran over its time in code that Python cannot interrupt, or it crashed; the executor's log has its stack.",
        )
    return found


def _without(tasks: Sequence[StageTask], incarnations: set[str]) -> list[StageTask]:
    rest = [replace(task, fragments=tuple(each for each in task.fragments if each.incarnation not in incarnations)) for task in tasks]
    return [task for task in rest if task.fragments]
