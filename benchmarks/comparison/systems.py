"""The systems that are compared, and where each of them is installed: the peers in environments of their own, out of each other's way."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

PEERS = Path(__file__).parent / "peers"
WITH_US = {"millstream": "millstream", "spark": "pyspark"}
"""Without requirements of their own: the packages that they come from."""
ENVIRONMENTS = Path(__file__).parents[2] / ".peers"


@dataclass(frozen=True)
class System:
    name: str
    shapes: dict[str, str]
    """The form of its answers, for each workload that it can express."""
    wants_one_file: bool
    """Of each stream, instead of many."""
    is_paced: bool
    """It can be given rows at a pace, and tells how long they waited."""

    @property
    def runner(self) -> Path:
        return PEERS / self.name / "run.py"

    @property
    def requirements(self) -> Path:
        return PEERS / self.name / "requirements.txt"

    @property
    def python(self) -> Path:
        """Systems without requirements of their own run where Millstream does."""
        return ENVIRONMENTS / self.name / "bin" / "python" if self.requirements.exists() else Path(sys.executable)

    @property
    def is_installed(self) -> bool:
        return self.python.exists() and (not self.requirements.exists() or self._stamp.exists())

    @property
    def version(self) -> str:
        """What is installed of it, as its requirements pin it."""
        if not self.requirements.exists():
            return version(WITH_US[self.name])
        return next((line.partition("==")[2] for line in self.requirements.read_text().split() if "==" in line), "")

    @property
    def _stamp(self) -> Path:
        return ENVIRONMENTS / self.name / ".installed"

    def install(self) -> None:
        """Its environment anew."""
        shutil.rmtree(ENVIRONMENTS / self.name, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENTS / self.name)], check=True)
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(self.requirements)]
        subprocess.run(pip, check=True, env={**os.environ, "PIP_NO_INPUT": "1"})
        self._stamp.touch()


def environment() -> dict[str, str]:
    """Of a runner: what it imports of the benchmarks comes first."""
    here = str(Path(__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])}


def systems() -> dict[str, System]:
    """Millstream first, then the peers by name."""
    found = {path.parent.name: _system(path) for path in sorted(PEERS.glob("*/run.py"))}
    return {"millstream": found.pop("millstream"), **found}


def _system(runner: Path) -> System:
    """By what its runner says of it, read without running it: what it imports may not be installed here."""
    assigned = [node for node in ast.parse(runner.read_text(encoding="utf-8")).body if isinstance(node, ast.Assign)]
    said = {target.id: node.value for node in assigned for target in node.targets if isinstance(target, ast.Name)}
    assert "WORKLOADS" in said, f"{runner} does not say WORKLOADS"
    return System(
        runner.parent.name, dict(ast.literal_eval(said["WORKLOADS"])), wants_one_file="ONE_FILE" in said, is_paced="PACED" in said
    )
