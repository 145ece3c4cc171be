"""The heartbeat of the event loop: a short ticker that measures how much later than asked the loop came back to it."""

import asyncio

from agent.health.status import RuntimeStatus

PERIOD_S = 0.05


async def measure_loop_delay(vitals: RuntimeStatus, *, period_s: float = PERIOD_S) -> None:
    """Runs until cancelled. What delays this ticker delays Kafka's heartbeats too."""
    while True:
        due = vitals.clock() + period_s
        await asyncio.sleep(period_s)
        vitals.beat(max(vitals.clock() - due, 0.0))
