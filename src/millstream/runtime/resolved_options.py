"""OPTIONS as whoever reads or writes needs them: with the environment's values in the place of references to it."""

from __future__ import annotations

from millstream.core.errors import ConfigInvalid
from millstream.core.secrets import Options


def resolved_options(whose: str, options: Options) -> Options:
    try:
        return options.resolved()
    except KeyError as error:
        raise ConfigInvalid(
            f"{whose} names the environment variable {error.args[0]}, which is not set", hint="Set it before the database is opened."
        ) from None
