"""Structured logs on stderr: JSON for programs, columns for people. One line per decision, never per record."""

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator
from io import StringIO
from typing import Any, Final, Literal, TextIO

import structlog
from pydantic import BaseModel, SecretStr
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from connectors.printable import printable, printable_json

LogFormat = Literal["auto", "json", "console"]

EVENT_CODE: Final = "event_code"
"""Field of log lines that programs rely on, such as the chaos tool. Codes are stable; the words of `event` are not."""
PARTITION_TAKEN: Final = "partition_taken"
"""This agent owns a partition now; `partition`, `offset` and `epoch` say which, from where and under which claim."""
WRITE_REFUSED: Final = "write_refused"
"""The store or the broker refused a write or a commit because this agent no longer owns the partition; see `reason`."""

_HIDDEN = "***"
_SHORTEST_SECRET = 4
_QUIET_S = 10.0
_later_secrets: set[str] = set()
_USER_TOKEN = re.compile(r"amt_[A-Za-z0-9_-]{20,}")  # tokens of users are not in the settings, only their hashes
_PASSWORD_IN_URL = re.compile(r"(?<=://)[^/@\s\"']*:[^/@\s\"']*(?=@)")


def set_up_logs(form: LogFormat, level: str, *, secrets: Collection[str] = ()) -> None:
    """Our lines from `level` up, those of libraries from warning up, in one format, on one stream, without secrets."""
    as_json = form == "json" or (form == "auto" and not sys.stderr.isatty())
    number = logging.getLevelNamesMapping()[level.upper()]
    rendering = [*_rendering(as_json), redaction(secrets)]
    structlog.configure(
        processors=[*_processors(), *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    libraries = logging.StreamHandler(sys.stderr)
    libraries.setFormatter(_library_formatter(rendering))
    libraries.addFilter(Repeats())
    logging.basicConfig(handlers=[libraries], level=max(number, logging.WARNING), force=True)
    logging.captureWarnings(True)


def secrets_in(settings: BaseModel) -> frozenset[str]:
    """Every secret in the settings, so that no log line can contain one."""
    return frozenset(secret for secret in _secrets(settings) if len(secret) >= _SHORTEST_SECRET)


def hide_secret(secret: str) -> None:
    """A secret that became known after the start, by a rotation, is hidden from then on."""
    if len(secret) >= _SHORTEST_SECRET:
        _later_secrets.add(secret)


def redaction(secrets: Collection[str]) -> Processor:
    """The last processor: it sees the finished line, so tracebacks and objects of libraries are covered too."""
    redact = text_redaction(secrets)
    return lambda _, __, line: redact(str(line))


def text_redaction(secrets: Collection[str]) -> Callable[[str], str]:
    """Hides these secrets, those that were learned later, tokens of users and passwords in addresses."""
    longest_first = _longest_first(secrets)

    def redact(text: str) -> str:
        for form in _longest_first(_later_secrets) + longest_first:
            text = text.replace(form, _HIDDEN)
        text = _USER_TOKEN.sub(_HIDDEN, text)
        return _PASSWORD_IN_URL.sub(_HIDDEN, text)

    return redact


def _longest_first(secrets: Collection[str]) -> list[str]:
    as_json = [json.dumps(secret, ensure_ascii=False)[1:-1] for secret in secrets]
    forms = {*secrets, *as_json, *map(printable, secrets), *map(printable_json, as_json)}
    return sorted(forms, key=len, reverse=True)


class Repeats(logging.Filter):
    """Lets a message of a library through once in ten seconds: a client without its broker repeats itself."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._last_s: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        message, now_s = (record.name, str(record.msg)), self._clock()
        self._last_s = {other: at_s for other, at_s in self._last_s.items() if now_s - at_s < _QUIET_S}
        is_new = message not in self._last_s
        self._last_s.setdefault(message, now_s)
        return is_new


def _processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _rendering(as_json: bool) -> list[Processor]:
    if as_json:
        renderer = structlog.processors.JSONRenderer(ensure_ascii=False)
        return [structlog.processors.format_exc_info, renderer, _escape_json]
    return [
        _escape_values,
        structlog.dev.ConsoleRenderer(colors=_use_colours(), exception_formatter=_write_traceback),
    ]


def _escape_values(_: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    """What comes from records must not forge a line or reach the terminal as a command."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in fields.items()}


def _escape_json(_: WrappedLogger, __: str, line: Any) -> Any:
    return printable_json(str(line))


def _write_traceback(out: TextIO, error: ExcInfo) -> None:
    text = StringIO()
    structlog.dev.plain_traceback(text, error)
    out.write(printable(text.getvalue(), keep="\n"))


def _library_formatter(rendering: list[Processor]) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_processors(), structlog.stdlib.add_logger_name],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
    )


def _secrets(value: object) -> Iterator[str]:
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case BaseModel():
            for each in vars(value).values():  # not by name: a deprecated field warns
                yield from _secrets(each)
        case tuple() | list():
            for each in value:
                yield from _secrets(each)
        case dict():
            yield from _secrets(list(value.values()))


def _use_colours() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ
