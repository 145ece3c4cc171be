"""How long it takes to judge a window again from the log: one partition of fifty thousand records."""

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from agent.models.loading import model_loader
from agent.offline.rebuild import LogRebuild
from agent.page.state import event_head
from agent.page.stored_event import StoredEvent
from agent.settings import load_plant
from tests.support.agent_process import Names, create_topics, expected_events, produce, pump_records, write_plant
from tests.support.services.kafka import KafkaBroker

_ASSETS, _SAMPLES, _EVENTS = 4, 12_500, 5


async def rebuild_times() -> tuple[list[float], int]:
    """Seconds of some events spread over the log, the first of which also loads the model; how many were identical."""
    names = Names("bench-travel")
    broker = KafkaBroker(quick_start=False)
    broker.start()
    try:
        create_topics(broker, names, 1)
        records = await pump_records(_ASSETS, _SAMPLES, partitions=1)
        await produce(broker.bootstrap, names.input, records, per_second=None)
        with TemporaryDirectory() as directory:
            redis = "redis://localhost:6379/0"  # is not asked for anything
            path = write_plant(Path(directory) / "plant.yaml", names, bootstrap=broker.bootstrap, redis_url=redis)
            return await _judge_again(path, broker.bootstrap, names.input)
    finally:
        broker.close()


async def _judge_again(path: Path, bootstrap: str, topic: str) -> tuple[list[float], int]:
    published = await expected_events(path, bootstrap, topic)
    plant = load_plant(path, os.environ)
    rebuild = LogRebuild(plant, model_loader(plant.settings))
    with_evidence = [(id, raw) for id, raw in published.items() if orjson.loads(raw).get("evidence")]
    took, identical = [], 0
    for id, raw in with_evidence[:: max(1, len(with_evidence) // _EVENTS)][:_EVENTS]:
        event = StoredEvent(event_head(id, 0, orjson.loads(raw), version=2), raw)
        began = time.perf_counter()
        found = await rebuild(event)
        took.append(time.perf_counter() - began)
        identical += found.identical is True
    return took, identical
