"""How every command speaks: exit codes, errors in one line on stderr, no traceback for a user's mistake."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from agent.errors import SettingsError
from anchormoe.errors import DataError, ModelError
from connectors.errors import ConnectorError, TransientError

FAILED = 1
WRONG_USAGE = 2


def fail(message: str, *, code: int = FAILED) -> NoReturn:
    """Say why on stderr, one line per problem, and leave with the code."""
    red, plain = ("\x1b[31m", "\x1b[0m") if sys.stderr.isatty() and "NO_COLOR" not in os.environ else ("", "")
    for line in message.splitlines():
        typer.echo(f"{red}error:{plain} {line}", err=True)
    sys.exit(code)


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Turn the errors a user can cause or mend into one line and an exit code; anything else is a bug and shows."""
    try:
        yield
    except SettingsError as error:
        fail(str(error), code=WRONG_USAGE)
    except (ModelError, DataError, ConnectorError, TransientError) as error:
        fail(str(error))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        fail(f"{error.filename}: {error.strerror}")
