"""What can go wrong at the edge, by what happens next. Connectors translate foreign exceptions, with `from`."""


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
    """The other side is gone: exit non-zero; nothing was committed."""
