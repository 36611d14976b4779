"""After the warm-up, the first window that opens and the first one that ends find their kernels loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import importlib, pkgutil, sys
from pathlib import Path
from inline import open_inline
from millstream import kernels
from millstream.operators.evaluator import Evaluator
from millstream.runtime.warm_up import warm_up

def loaded():
    modules = [importlib.import_module(f"millstream.kernels.{each.name}") for each in pkgutil.iter_modules(kernels.__path__)]
    functions = {value for module in modules for value in vars(module).values() if hasattr(value, "signatures")}
    return {(each.py_func.__module__, each.py_func.__name__, str(signature)) for each in functions for signature in each.signatures}

warm_up(Evaluator())
before = loaded()
assert before
with open_inline(Path(sys.argv[1])) as db:
    db.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts PARTITION BY k")
    q = db.execute("SELECT k, sum(v) AS n, count(*) AS c FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k")
    p = db.execute("SELECT k, sum(v) AS n, count(*) AS c FROM s [RANGE 20 SECONDS] GROUP BY k")
    for second in range(0, 100, 5):
        db.insert("s", [(second * 1_000_000, second, 1)])
        db.flush()
    assert q.changes()["diff"].to_pylist().count(-1) > 5
for kernel in sorted(loaded() - before):
    print(kernel)
"""


def test_windows_need_no_other_kernels(tmp_path: Path) -> None:
    tests = Path(__file__).parents[2]
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tests)!r})\n{PROGRAM}", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
