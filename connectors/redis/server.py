"""How to reach a Redis or Valkey server, how to run a command, and the translation of its errors."""

import asyncio
import re
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import redis.asyncio
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from connectors.errors import ConnectorError, TransientError

Reply = TypeVar("Reply")

# Before Redis 7, an error inside a script has its code in the middle of the text.
_TRANSIENT = re.compile(r"(?:^|-)(OOM|READONLY|MISCONF|BUSY|CLUSTERDOWN|MASTERDOWN|TRYAGAIN|NOREPLICAS)\b")
_MESSAGES = {"OOM": "the server's memory is full", "READONLY": "the server is a read-only replica"}


class _AbruptConnection(redis.asyncio.SSLConnection):
    """Aborts a failed connection: asyncio would otherwise keep it open until the server has closed TLS as well."""

    async def disconnect(self, nowait: bool = False, *args: Any, **kwargs: Any) -> None:
        if nowait and self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(nowait, *args, **kwargs)


@dataclass(frozen=True, slots=True)
class Server:
    """`url` is redis:// or rediss:// without a login; the password is separate and left out of the repr."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    timeout_s: float = 5.0
    attempts: int = 3
    first_pause_s: float = 0.1
    longest_pause_s: float = 0.5

    def client(self) -> Any:
        options: dict[str, Any] = {
            "socket_timeout": self.timeout_s,
            "socket_connect_timeout": self.timeout_s,
            # After a restart of the server the old connections are dead. Every command here may be repeated.
            "retry": Retry(self._backoff(), retries=self.attempts - 1),
        }
        if self.password is not None:
            options |= {"username": self.username, "password": self.password}
        if self.url.startswith("rediss://"):
            files = {"ssl_ca_certs": self.ca_file, "ssl_certfile": self.cert_file, "ssl_keyfile": self.key_file}
            options |= {name: path for name, path in files.items() if path}
        client = redis.asyncio.Redis.from_url(self.url, **options)
        if self.url.startswith("rediss://"):
            client.connection_pool.connection_class = _AbruptConnection
        return client

    def _backoff(self) -> ExponentialBackoff:
        """redis-py doubles the base before the first pause already."""
        return ExponentialBackoff(cap=self.longest_pause_s, base=self.first_pause_s / 2)


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Unreachable, loading, full …: TransientError. Refused or wrong: ConnectorError."""
    try:
        yield
    except (exceptions.AuthenticationError, exceptions.NoPermissionError) as error:
        raise ConnectorError(f"{what}: {error}") from error
    except (exceptions.ConnectionError, exceptions.TimeoutError, exceptions.BusyLoadingError, OSError) as error:
        raise TransientError(f"{what}: {error}") from error
    except exceptions.RedisError as error:
        if reason := _transient_reason(error):
            raise TransientError(f"{what}: {reason}") from error
        raise ConnectorError(f"{what}: {error}") from error


async def run_command(what: str, command: Awaitable[Reply]) -> Reply:
    """Shielded: a cancelled command once left its reply for the next caller to read (CVE-2023-28858)."""
    with translate_errors(what):
        return await asyncio.shield(asyncio.ensure_future(command))


@contextmanager
def no_retry() -> Iterator[None]:
    """Where no one retries, as at the start, a transient error is final."""
    try:
        yield
    except TransientError as error:
        raise ConnectorError(str(error)) from error


def _transient_reason(error: exceptions.RedisError) -> str | None:
    """None for an error that will not pass by itself."""
    if isinstance(error, exceptions.OutOfMemoryError):
        return _MESSAGES["OOM"]
    if isinstance(error, exceptions.ReadOnlyError):
        return _MESSAGES["READONLY"]
    found = _TRANSIENT.search(str(error))
    return None if found is None else _MESSAGES.get(found[1], str(error))
