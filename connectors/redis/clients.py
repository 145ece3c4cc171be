"""redis-py's clients: for one server, for a cluster, for servers behind sentinels."""

from typing import Any

import redis.asyncio
from redis import exceptions
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelManagedConnection
from redis.backoff import NoBackoff

from connectors.redis.address import RedisAddress

READ_ONLY = "the server is a read-only replica"
_SHORTEST_TIMEOUT_S = 0.5


class _MasterConnection(AbstractConnection):
    """Leaves a server that has become a replica: the address, or the sentinels, may lead to the new master by now."""

    async def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
        # Once: a command is tried several times as a whole, and attempts inside each other would multiply.
        await super().connect_check_health(check_health, retry_socket_connect=False)

    async def read_response(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super().read_response(*args, **kwargs)
        except exceptions.ResponseError as error:
            if not is_read_only(error):
                raise
            await self.disconnect(nowait=True)
            raise exceptions.ConnectionError(READ_ONLY) from error


class _TcpConnection(_MasterConnection, redis.asyncio.Connection):
    pass


class _SocketConnection(_MasterConnection, redis.asyncio.UnixDomainSocketConnection):
    pass


class _TlsConnection(_MasterConnection, redis.asyncio.SSLConnection):
    """Reads the certificates again, for they may have been renewed, and aborts when it failed.

    asyncio would otherwise keep a failed connection open until the server has closed TLS as well.
    """

    def _connection_arguments(self) -> Any:
        self.ssl_context.context = None
        return super()._connection_arguments()

    async def disconnect(self, nowait: bool = False, *args: Any, **kwargs: Any) -> None:
        if nowait and self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(nowait, *args, **kwargs)


class _SentinelConnection(SentinelManagedConnection, _TcpConnection):
    """Asks the sentinels before every connection, also while a command is tried again."""

    async def send_packed_command(self, *args: Any, **kwargs: Any) -> None:
        if not self.is_connected:
            await self._connect_retry()  # type: ignore[no-untyped-call] # redis-py leaves it without annotations
        await super().send_packed_command(*args, **kwargs)


class _SentinelTlsConnection(_SentinelConnection, _TlsConnection):
    pass


class _SentinelClient(redis.asyncio.Redis):
    """Closes the connections to the sentinels too."""

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        pool: Any = self.connection_pool
        for sentinel in pool.sentinel_manager.sentinels:
            await sentinel.aclose()


def is_read_only(error: Exception) -> bool:
    """Before Redis 7, an error inside a script has its code in the middle of the text."""
    return isinstance(error, exceptions.ReadOnlyError) or "READONLY" in str(error)


def single_client(url: str, address: RedisAddress, options: dict[str, Any], tls: dict[str, Any]) -> Any:
    client = redis.asyncio.Redis.from_url(url, **options, **(tls if address.tls else {}))
    kind = _TlsConnection if address.tls else _TcpConnection if address.hosts else _SocketConnection
    client.connection_pool.connection_class = kind
    return client


def cluster_client(address: RedisAddress, options: dict[str, Any], tls: dict[str, Any]) -> Any:
    nodes = [ClusterNode(host, port) for host, port in address.hosts]
    client = RedisCluster(startup_nodes=nodes, **options, **({"ssl": True, **tls} if address.tls else {}))
    if address.tls:
        client.nodes_manager.connection_kwargs["connection_class"] = _TlsConnection
        for node in client.nodes_manager.startup_nodes.values():
            node.connection_class = _TlsConnection
    return client


def sentinel_client(
    address: RedisAddress, options: dict[str, Any], tls: dict[str, Any], sentinel_options: dict[str, Any]
) -> Any:
    """`sentinel_options` are the login of the sentinels, and `tls` when they speak it."""
    # All of them together take no longer than one server may.
    timeout_s = max(options["socket_timeout"] / len(address.hosts), _SHORTEST_TIMEOUT_S)
    timeouts = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s, "retry": Retry(NoBackoff(), 0)}
    sentinels = Sentinel(address.hosts, sentinel_kwargs={**timeouts, **sentinel_options})
    kind = _SentinelTlsConnection if address.tls else _SentinelConnection
    given = {**options, **(tls if address.tls else {}), "db": address.database, "connection_class": kind}
    return sentinels.master_for(address.master, redis_class=_SentinelClient, **given)


async def primaries(client: Any) -> list[Any]:
    """A client or node for each server that holds a part of the keys; commands go to one by `ask_server`."""
    if not isinstance(client, RedisCluster):
        return [client]
    await client.initialize()
    return client.get_primaries()


async def ask_server(client: Any, server: Any, *command: Any) -> Any:
    """Sends a command to one of the `primaries` of the client."""
    if server is client:
        return await client.execute_command(*command)
    return await client.execute_command(*command, target_nodes=server)
