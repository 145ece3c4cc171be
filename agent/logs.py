"""Structured logs to stderr: JSON for machines, columns for people. One line per decision, never per record."""

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, Literal

import structlog
from pydantic import BaseModel, SecretStr
from structlog.typing import Processor, WrappedLogger

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
_PASSWORD_IN_URL = re.compile(r"(?<=://)[^/@\s\"']*:[^/@\s\"']*(?=@)")


def set_up_logs(form: LogFormat, level: str, *, secrets: Collection[str] = ()) -> None:
    """Ours from `level` on, the libraries' from warning on, in the same form, on the same stream, without secrets."""
    as_json = form == "json" or (form == "auto" and not sys.stderr.isatty())
    number = logging.getLevelNamesMapping()[level.upper()]
    rendering = [*_rendering(as_json), redaction(secrets)]
    structlog.configure(
        processors=[*_facts(), *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    foreign = logging.StreamHandler(sys.stderr)
    foreign.setFormatter(_foreign_form(rendering))
    foreign.addFilter(Repeats())
    logging.basicConfig(handlers=[foreign], level=max(number, logging.WARNING), force=True)
    logging.captureWarnings(True)


def secrets_in(settings: BaseModel) -> frozenset[str]:
    """Every secret of the settings, so that no line can show one, whoever writes it."""
    return frozenset(secret for secret in _secrets(settings) if len(secret) >= _SHORTEST_SECRET)


def redaction(secrets: Collection[str]) -> Processor:
    """Last in the chain: looks at the finished line, so tracebacks and foreign objects are covered too."""
    as_json = (json.dumps(secret, ensure_ascii=False)[1:-1] for secret in secrets)
    forms = {*secrets, *as_json}
    longest_first = sorted(forms, key=len, reverse=True)

    def redact(_: WrappedLogger, __: str, line: Any) -> Any:
        text = str(line)
        for form in longest_first:
            text = text.replace(form, _HIDDEN)
        return _PASSWORD_IN_URL.sub(_HIDDEN, text)

    return redact


class Repeats(logging.Filter):
    """A library that says the same again and again, as a client without its broker does, is heard every ten seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._heard: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        said, now = (record.name, str(record.msg)), self._clock()
        self._heard = {other: at for other, at in self._heard.items() if now - at < _QUIET_S}
        new = said not in self._heard
        self._heard.setdefault(said, now)
        return new


def _facts() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _rendering(as_json: bool) -> list[Processor]:
    if as_json:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    return [structlog.dev.ConsoleRenderer(colors=_colours())]


def _foreign_form(rendering: list[Processor]) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_facts(), structlog.stdlib.add_logger_name],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
    )


def _secrets(value: object) -> Iterator[str]:
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case BaseModel():
            for name in type(value).model_fields:
                yield from _secrets(getattr(value, name))
        case tuple() | list():
            for each in value:
                yield from _secrets(each)
        case dict():
            yield from _secrets(list(value.values()))


def _colours() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ
