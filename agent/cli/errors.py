"""Exit codes and error output of all commands, and what Ctrl-C does to the offline ones."""

import asyncio
import os
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import typer

from agent.errors import BreakerTripped, SettingsError
from anchormoe.errors import DataError, ModelError
from connectors.errors import ConnectorError, TransientError
from connectors.printable import printable

FAILED = 1
WRONG_USAGE = 2
TRY_AGAIN = os.EX_TEMPFAIL
"""75: what is missing may be there in a moment; a supervisor starts the agent again."""
EXTRAS = {
    "torch": "train",
    "aeon": "train",
    "matplotlib": "train",
    "pandas": "train",
    "pyarrow": "train",
    "sklearn": "train",
    "faust": "alarms",
}
"""What the plain serving installation leaves out, by the extra that brings it."""

Result = TypeVar("Result")


def fail(message: str, *, code: int = FAILED) -> NoReturn:
    """Print the reason to stderr, one `error:` per line of it, and exit with the code."""
    red, plain = ("\x1b[31m", "\x1b[0m") if sys.stderr.isatty() and "NO_COLOR" not in os.environ else ("", "")
    for line in message.splitlines():
        typer.echo(f"{red}error:{plain} {printable(line)}", err=True)
    sys.exit(code)


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Turn errors that a user can cause or fix into one line and an exit code; any other exception is a bug."""
    try:
        yield
    except SettingsError as error:
        fail(str(error), code=TRY_AGAIN if error.may_pass else WRONG_USAGE)
    except (ModelError, DataError, ConnectorError, TransientError, BreakerTripped) as error:
        fail(str(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        fail(f"{package} is not installed, and this command needs it: pip install 'anchormoe-agent[{EXTRAS[package]}]'")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        fail(f"{error.filename}: {error.strerror}")


def run_interruptibly(work: Coroutine[Any, Any, Result]) -> Result:
    """Run work that stops in order at the first Ctrl-C and is cancelled by the second (`stop_on_signals`)."""
    try:
        return asyncio.run(work)
    except asyncio.CancelledError:
        fail("cancelled by a second signal; the output may be incomplete")
