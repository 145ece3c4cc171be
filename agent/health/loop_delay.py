"""A ticker that measures how much later than asked the event loop gets back to it."""

import asyncio

from agent.health.status import RuntimeStatus

PERIOD_S = 0.05


async def measure_loop_delay(status: RuntimeStatus, *, period_s: float = PERIOD_S) -> None:
    """Runs until cancelled. What delays this ticker delays the heartbeats to Kafka as well."""
    while True:
        due_s = status.clock() + period_s
        await asyncio.sleep(period_s)
        status.ticked(max(status.clock() - due_s, 0.0))
