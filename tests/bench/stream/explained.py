"""Explained windows per second, Kafka in and Kafka out, against what the model alone explains in batches of 32."""

import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.stream.agents import Run, run_agents
from tests.bench.stream.pumps import pump_rows
from tests.bench.stream.world import World

GOAL = 0.6
_ASSETS, _PARTITIONS = 64, 4
_TURNS = 3


class ModelSpeed(NamedTuple):
    per_s: float
    cpu_s: float


async def measured(world: World, bundle: Path, samples: int) -> list[str]:
    rows = await world.elsewhere(_rows, samples)
    models: list[ModelSpeed] = []
    runs: dict[int, list[Run]] = {1: [], 2: []}
    for _ in range(_TURNS):
        for agents, found in runs.items():
            models.append(await world.elsewhere(model_speed, str(bundle)))
            found.append(await world.in_thread(run_agents, world, rows, agents=agents, bundle=bundle))
    model = ModelSpeed(max(one.per_s for one in models), min(one.cpu_s for one in models))
    return [
        f"The demo's pump bundle, {_ASSETS} assets, a window every 4 steps, every window an event with its evidence; "
        "real agent processes, broker and Redis on the same two cores. The model alone explains batches of 32 in a "
        f"process of its own, in turns with the agents, {_TURNS} times; the best of each.",
        "",
        "| | windows/s | of the model alone (asked for: 60 %) | processor µs per window | × model |",
        "| --- | --- | --- | --- | --- |",
        f"| model alone | {model.per_s:,.0f} | | {model.cpu_s * 1e6:.0f} | |",
        *(_row(f"{agents} process{'es' if agents > 1 else ''}", found, model) for agents, found in runs.items()),
    ]


def _row(name: str, runs: list[Run], model: ModelSpeed) -> str:
    per_s, cpu_s = max(run.per_s for run in runs), min(run.cpu_s / run.events for run in runs)
    verdict = "met" if per_s >= GOAL * model.per_s else "not met"
    share = f"{per_s / model.per_s:.0%}, {verdict}"
    return f"| {name} | {per_s:,.0f} | {share} | {cpu_s * 1e6:.0f} | {cpu_s / model.cpu_s:.2f} |"


def _rows(samples: int) -> Any:
    return pump_rows(_ASSETS, samples, partitions=_PARTITIONS)


def model_speed(bundle: str) -> ModelSpeed:
    """Of a process of its own; the best of several seconds."""
    from anchormoe import Predictor
    from tests.bench.stream.latency import sample_windows

    predictor = Predictor.load(Path(bundle), threads=1)
    windows, mask = sample_windows(predictor)
    best = ModelSpeed(0.0, 1e9)
    for _ in range(20):
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(8):
            predictor.predict(windows, mask)
        count = 8 * len(windows)
        spent = ModelSpeed(count / (time.perf_counter() - began), (time.process_time() - cpu) / count)
        best = ModelSpeed(max(best.per_s, spent.per_s), min(best.cpu_s, spent.cpu_s))
    return best
