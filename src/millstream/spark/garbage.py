"""What a worker process has loaded stays loaded: no need to look it through after every task.

PySpark collects garbage whenever a task has ended, and the process's next task waits for it.  With our libraries loaded that is 60 to
90 ms, more than all else that a small job costs.
"""

from __future__ import annotations

import gc
from functools import cache


def leave_out_of_collections() -> None:
    """All that there is now.  If it is part of a cycle it is never freed: not to be called when there is something that will go."""
    gc.collect()
    gc.freeze()


@cache
def leave_out_what_is_loaded() -> None:
    """For a task of a process that keeps nothing from task to task; once, at the end of its first."""
    leave_out_of_collections()
