"""How often a command to Redis is tried, how long the pauses between are, and that hosts are verified."""

import asyncio
import ssl
from pathlib import Path

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from connectors.errors import TransientError
from connectors.redis.server import Server, run_command
from tests.support.services.certificates import Authority
from tests.support.tls_connections import connections_closed


async def tried(server: Server, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[float]]:
    """Attempts and pauses of a command that never gets a reply."""
    tries, pauses = 0, []

    async def fails() -> None:
        nonlocal tries
        tries += 1
        raise RedisConnectionError("nobody there")

    async def slept(seconds: float) -> None:
        pauses.append(seconds)

    async def goes_on(_: Exception) -> None: ...

    monkeypatch.setattr("redis.asyncio.retry.sleep", slept)
    retry = server.client().connection_pool.connection_kwargs["retry"]
    with pytest.raises(RedisConnectionError):
        await retry.call_with_retry(fails, goes_on)
    return tries, pauses


async def test_a_command_is_tried_as_often_as_the_settings_say_with_growing_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server("redis://localhost:1", attempts=4, first_pause_s=0.2, longest_pause_s=0.5)
    assert await tried(server, monkeypatch) == (4, [0.2, 0.4, 0.5])


async def test_one_attempt_means_no_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await tried(Server("redis://localhost:1", attempts=1), monkeypatch) == (1, [])


@pytest.mark.parametrize("address", ["rediss://{}", "rediss+cluster://{}", "rediss+sentinel://{}/plant"])
async def test_a_certificate_of_another_host_is_refused(address: str, tmp_path: Path) -> None:
    """Whatever redis-py does by default: the authority is right, the name is not."""
    authority = Authority(tmp_path)
    own, context = authority.issue("server"), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(own.certificate, own.key)
    reached: list[str] = []

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append("the server")
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.2", 0, ssl=context) as listening:
        host = f"127.0.0.2:{listening.sockets[0].getsockname()[1]}"
        client = Server(address.format(host), ca_file=str(authority.certificate), attempts=1).client()
        with pytest.raises(TransientError, match=r"certificate is not valid|No master found") as refused:
            await run_command("refused", client.ping())
        await client.aclose()
    assert reached == []
    assert "<" not in str(refused.value)
    await connections_closed()
