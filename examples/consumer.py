"""Prints why, whenever an asset is not in its normal state; resumes where it stopped.

python examples/consumer.py broker:9092 events
"""

import asyncio
import sys

from agent.client import read_events
from agent.contracts import ExplainedEvent


async def main(bootstrap: str, topic: str) -> None:
    async for event in read_events(bootstrap, topic=topic, group="consumer-example"):
        if isinstance(event.data, ExplainedEvent) and event.data.state != "normal" and event.data.evidence:
            strongest = next(iter(event.data.evidence.spans), None)  # the strongest one is first
            print(event.time, event.asset, event.data.state, strongest and strongest.start, event.text, flush=True)


if __name__ == "__main__":
    asyncio.run(main(bootstrap=sys.argv[1], topic=sys.argv[2]))
