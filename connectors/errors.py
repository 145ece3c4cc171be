"""Errors by what happens next; connectors translate the exceptions of their libraries into these, with `from`."""

from collections.abc import Iterable
from reprlib import Repr

from connectors.printable import printable

_ITEMS_SHOWN = 20
_LEVELS_SHOWN = 4


class RecordError(Exception):
    """This record is unusable: dead-letter it, count it by `reason`, go on."""

    def __init__(self, reason: str, detail: str, *, field: str | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.field = field


class TransientError(Exception):
    """Try again: bounded retries with jitter, then raise `ConnectorError`."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ConnectorError(Exception):
    """The service cannot be used: exit non-zero; nothing was committed."""


def shorten(value: object, limit: int = 60) -> str:
    """The repr of a value for a message, cut to `limit` characters: what a record holds may be of any length."""
    text = repr(value[: limit + 1]) if isinstance(value, str | bytes) else _bounded_repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def list_names(names: Iterable[str], limit: int = 8) -> str:
    """Names for a message, at most `limit` of them."""
    ordered = sorted(names)
    shown = [printable(name if len(name) <= 40 else f"{name[:39]}…") for name in ordered[:limit]]
    return ", ".join(shown) + (f" and {len(ordered) - limit} more" if len(ordered) > limit else "")


def _bounded_repr(value: object) -> str:
    """`repr` would take a megabyte for a long array, and fail for one that is nested a thousand times."""
    short = Repr()
    short.maxlevel = _LEVELS_SHOWN
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = _ITEMS_SHOWN
    return short.repr(value)
