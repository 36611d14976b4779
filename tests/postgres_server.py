"""A PostgreSQL server of the tests' own: in a temporary directory, on a socket in it, with passwords."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "find-postgres"
PASSWORD = "it's s3cret/@:%"
_QUOTED = "it%27s%20s3cret%2F%40%3A%25"


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of its database, with the password of its user in it."""
    programs = Path(subprocess.run(["sh", str(SCRIPT)], check=True, capture_output=True, text=True).stdout.strip())
    directory = Path(tempfile.mkdtemp(prefix="millstream-pg-"))
    user = _server_user()
    try:
        (directory / "password").write_text(PASSWORD + "\n")
        for path in (directory, directory / "password"):
            shutil.chown(path, user)
        data = str(directory / "data")
        initialise = ["initdb", "-D", data, "-U", "millstream", "-A", "scram-sha-256", "--pwfile", str(directory / "password")]
        _run(programs, [*initialise, "-E", "UTF8", "--no-locale", "--no-sync"], directory, user)
        settings = f"-k {directory} -c listen_addresses= -c fsync=off -c max_connections=20"
        # -w waits until it answers; the server is a process of its own, which its data directory knows by its id
        _run(programs, ["pg_ctl", "-D", data, "-w", "-l", str(directory / "log"), "-o", settings, "start"], directory, user)
        try:
            yield f"postgresql://millstream:{_QUOTED}@localhost/postgres?host={directory}"
        finally:
            _run(programs, ["pg_ctl", "-D", data, "-w", "-m", "immediate", "stop"], directory, user)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _server_user() -> str:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return pwd.getpwuid(os.getuid()).pw_name
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _run(programs: Path, command: list[str], directory: Path, user: str) -> None:
    as_user = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
    with open(directory / "output", "ab") as output:
        done = subprocess.run([str(programs / command[0]), *command[1:]], cwd=directory, stdout=output, stderr=output, **as_user)  # type: ignore[call-overload]
    assert done.returncode == 0, (directory / "output").read_text()
