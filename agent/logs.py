"""Structured logs to stderr: JSON for machines, columns for people. One line per decision, never per record."""

import logging
import os
import sys
from typing import Literal

import structlog

LogFormat = Literal["auto", "json", "console"]


def set_up_logs(form: LogFormat, level: str) -> None:
    """Ours through structlog, the libraries' through the same lines at warning and above."""
    as_json = form == "json" or (form == "auto" and not sys.stderr.isatty())
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=_colours()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    foreign = logging.StreamHandler(sys.stderr)
    foreign.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(handlers=[foreign], level=max(number, logging.WARNING), force=True)


def _colours() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ
