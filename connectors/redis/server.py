"""How to reach Redis or Valkey, how to run a command, and the translation of its errors."""

import asyncio
import re
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from redis import exceptions
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError
from redis.backoff import ExponentialBackoff
from redis.credentials import CredentialProvider

from connectors.errors import ConnectorError, TransientError
from connectors.redis.address import parse_address
from connectors.redis.clients import READ_ONLY, cluster_client, sentinel_client, single_client
from connectors.secret_files import SecretFile, reveal_secret

Reply = TypeVar("Reply")
NODE = "the server is a node of a Redis Cluster"
NO_NODE = "the server is not a node of a Redis Cluster"

# Before Redis 7, an error inside a script has its code in the middle of the text.
_TRANSIENT = re.compile(r"(?:^|-)(OOM|READONLY|MISCONF|BUSY|CLUSTERDOWN|MASTERDOWN|TRYAGAIN|NOREPLICAS)\b")
_MESSAGES = {
    "OOM": "the server's memory is full",
    "READONLY": READ_ONLY,
    "TRYAGAIN": "the keys are on their way to another node of the cluster",
}


@dataclass(frozen=True, slots=True)
class Server:
    """A Redis by its address (see `connectors.redis.address`), without a login in it.

    The passwords are separate and left out of the repr. The certificates are for the servers and, unless
    `sentinel_tls` says otherwise, for the sentinels.
    """

    url: str
    username: str | None = None
    password: str | SecretFile | None = field(default=None, repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | SecretFile | None = field(default=None, repr=False)
    sentinel_tls: bool | None = None
    timeout_s: float = 5.0
    attempts: int = 3
    first_pause_s: float = 0.1
    longest_pause_s: float = 0.5

    def client(self) -> Any:
        """One of redis-py's asyncio clients. It connects with the first command. Raises ConnectorError."""
        try:
            address = parse_address(self.url)
        except ValueError as error:
            raise ConnectorError(f"cannot reach Redis: {error}") from error
        match address.topology:
            case "single":
                return single_client(self.url, address, self._options(), self._tls())
            case "cluster":
                return cluster_client(address, self._options(), self._tls())
            case "sentinel":
                speaks_tls = address.tls if self.sentinel_tls is None else self.sentinel_tls
                login = _login(self.sentinel_username, self.sentinel_password)
                sentinels = login | ({"ssl": True, **self._tls()} if speaks_tls else {})
                return sentinel_client(address, self._options(), self._tls(), sentinels)

    def _options(self) -> dict[str, Any]:
        return {
            "socket_timeout": self.timeout_s,
            "socket_connect_timeout": self.timeout_s,
            # After a restart of the server the old connections are dead. Every command here may be repeated.
            "retry": Retry(self._backoff(), retries=self.attempts - 1),
            **_login(self.username, self.password),
        }

    def _tls(self) -> dict[str, Any]:
        files = {"ssl_ca_certs": self.ca_file, "ssl_certfile": self.cert_file, "ssl_keyfile": self.key_file}
        return {"ssl_check_hostname": True, **{name: path for name, path in files.items() if path}}

    def _backoff(self) -> ExponentialBackoff:
        """redis-py doubles the base before the first pause already."""
        return ExponentialBackoff(cap=self.longest_pause_s, base=self.first_pause_s / 2)


class _Login(CredentialProvider):
    """Asked before each connection, so that a password in a file can be changed while the agent runs."""

    def __init__(self, username: str | None, password: str | SecretFile) -> None:
        self._username, self._password = username, password

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        password = reveal_secret(self._password) or ""
        return (self._username, password) if self._username else (password,)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        return self.get_credentials()


def _login(username: str | None, password: str | SecretFile | None) -> dict[str, Any]:
    return {} if password is None else {"credential_provider": _Login(username, password)}


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Unreachable, loading, full, changing …: TransientError. Refused or wrong: ConnectorError."""
    try:
        yield
    except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
        cause = error.__cause__ if isinstance(error, exceptions.RedisClusterException) else None
        if wrong := _wrong(error) or (cause and _wrong(cause)):
            raise ConnectorError(f"{what}: {wrong}") from error
        raise TransientError(f"{what}: {_transient_reason(error)}") from error


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


def _wrong(error: BaseException) -> str | None:
    """What will not pass by itself, and what to do about it; None for an error that may pass.

    A refused login may pass: a password changes at the server and in our file, one after the other.
    """
    match error:
        case exceptions.NoPermissionError():
            return str(error)
        case exceptions.MovedError() | exceptions.AskError():
            return f"{NODE}; use redis+cluster://host:port or rediss+cluster://"
        case exceptions.RedisClusterException() if "not enabled" in str(error):
            return f"{NO_NODE}; use redis://host:port or rediss://"
        case exceptions.ConnectionError() | exceptions.TimeoutError() | exceptions.TryAgainError():
            return None
        case exceptions.ClusterError() | exceptions.OutOfMemoryError() | exceptions.ReadOnlyError():
            return None
        case exceptions.RedisError() if _TRANSIENT.search(str(error)) is None:
            return str(error)
    return None


def _transient_reason(error: BaseException) -> str:
    match error:
        case exceptions.OutOfMemoryError():
            return _MESSAGES["OOM"]
        case exceptions.TryAgainError():
            return _MESSAGES["TRYAGAIN"]
        case MasterNotFoundError():  # its text shows the client objects, with all their options
            return re.sub(r"<.*?> - ", "", str(error))
    found = _TRANSIENT.search(str(error))
    return str(error) if found is None else _MESSAGES.get(found[1], str(error))
