"""How often a command to Redis is tried, and how long the pauses between are."""

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from connectors.redis.server import Server


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
