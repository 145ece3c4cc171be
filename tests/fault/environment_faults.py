"""Faults of what surrounds the agents: the machine's clock, the directory with the bundle, activations of models."""

import asyncio
import os
import shutil
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from agent.chaos.agents import ChaosError, wait_until
from agent.chaos.context import RESTART_GOAL_S, FaultContext
from agent.chaos.fault import Fault
from agent.chaos.report import FaultOutcome
from agent.models.activations import Activation, encode_activation
from agent.models.bundle_directory import describe_bundle
from connectors.kafka.compacted_log import CompactedLog
from connectors.timestamps import NS_PER_MS
from tests.fault.descriptions import DESCRIPTIONS
from tests.fault.moved_clock.sitecustomize import VARIABLE
from tests.support.agent_process import BUNDLE, PUMPS

_CLOCK = Path(__file__).parent / "moved_clock"
_HOUR_S = 3600
_WEIGHTS, _MANIFEST = "model.safetensors", "manifest.json"
MODELS = ("first", "second")
_AHEAD_MS = 10_000
_LOAD_TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Of one round: a clock that can be moved, and a copy of the bundle that can be damaged."""

    directory: Path

    @property
    def bundle(self) -> Path:
        return self.directory / "bundle"

    @property
    def clock_file(self) -> Path:
        return self.directory / "clock"

    def prepare(self, environ: MutableMapping[str, str]) -> None:
        """Agents that are started with this environment have the clock."""
        shutil.rmtree(self.directory, ignore_errors=True)  # of an interrupted round with the same seed
        self.directory.mkdir(parents=True)
        shutil.copytree(BUNDLE, self.bundle)
        for name in MODELS:
            self._add_model(name)
        self.move_clock(0)
        environ[VARIABLE] = str(self.clock_file)
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_CLOCK), environ.get("PYTHONPATH", "")]))

    @property
    def models(self) -> Path:
        return self.directory / "models"

    def digest(self, model: str) -> str:
        return describe_bundle(self.models / model, model).digest

    def _add_model(self, name: str) -> None:
        """The same weights under another digest, which every event names."""
        target = self.models / name
        shutil.copytree(BUNDLE, target)
        manifest = orjson.loads((target / _MANIFEST).read_bytes())
        manifest["data"] = manifest["data"] | {"name": name}
        (target / _MANIFEST).write_bytes(orjson.dumps(manifest, option=orjson.OPT_INDENT_2))

    def move_clock(self, by_s: float) -> None:
        self.clock_file.write_text(str(by_s))

    @contextmanager
    def other_bundle(self, *, damaged: bool) -> Iterator[None]:
        """Instead of the bundle: one with a flipped bit, or nothing. A rename, as deployments do it."""
        kept = self.directory / "bundle.kept"
        self.bundle.rename(kept)
        try:
            if damaged:
                shutil.copytree(kept, self.bundle)
                _flip_bit(self.bundle / _WEIGHTS)
            yield
        finally:
            shutil.rmtree(self.bundle, ignore_errors=True)
            kept.rename(self.bundle)


def _flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


async def _activate(context: FaultContext, surroundings: Surroundings, model: str, effective_ns: int) -> None:
    now_ns = time.time_ns()
    wanted = Activation(PUMPS["name"], effective_ns, surroundings.digest(model), model, "chaos", now_ns, "chaos")
    log = CompactedLog(context.cluster, f"{context.names.namespace}-activations")
    try:
        await log.start()
        await log.append(wanted.key, encode_activation(wanted))
    finally:
        await log.close()


def _all_know(context: FaultContext, effective_ns: int) -> bool:
    """Every agent has loaded it since its last start."""
    told = f'"effective_ns": {effective_ns}'.encode()
    return all(agent.running and told in agent.log_since_start for agent in context.fleet.kept_running)


def environment_faults(surroundings: Surroundings, *, activations: bool) -> list[Fault]:
    async def move_clock(context: FaultContext) -> FaultOutcome:
        """All agents' clocks are wrong for seconds; half of the time an agent starts meanwhile."""
        hours = context.random.choice((-1, 1)) * context.random.choice((2, 26, 10_000))
        surroundings.move_clock(hours * _HOUR_S)
        try:
            await asyncio.sleep(context.random.uniform(0.5, 2))
            if context.random.random() < 0.5:
                context.random_agent().kill()
                await asyncio.sleep(context.random.uniform(0.5, 2))
        finally:
            surroundings.move_clock(0)
        recovered_s = await context.wait_for_recovery(time.monotonic())
        return FaultOutcome("agent-clock-jump", recovered_s, RESTART_GOAL_S, f"{hours:+} h")

    async def restart_without_bundle(context: FaultContext) -> FaultOutcome:
        return await restart_with_other(context, "bundle-missing", damaged=False)

    async def restart_with_damaged(context: FaultContext) -> FaultOutcome:
        return await restart_with_other(context, "bundle-swapped", damaged=True)

    async def restart_with_other(context: FaultContext, name: str, *, damaged: bool) -> FaultOutcome:
        """Running agents keep theirs; those that start meanwhile must refuse, and be started again."""
        agents = context.fleet.kept_running if context.random.random() < 0.5 else [context.random_agent()]
        starts = sum(agent.starts for agent in agents)
        with surroundings.other_bundle(damaged=damaged):
            for agent in agents:
                agent.kill()
            await asyncio.sleep(context.random.uniform(1, 4))
        tries = sum(agent.starts for agent in agents) - starts
        recovered_s = await context.wait_for_recovery(time.monotonic())
        return FaultOutcome(name, recovered_s, RESTART_GOAL_S, f"{tries} starts of {len(agents)} agents")

    async def activate_and_crash(context: FaultContext) -> FaultOutcome:
        """1. Nothing flows. 2. An activation; an agent dies. 3. All have loaded it. 4. Windows pass it; another dies.

        Nothing flows before all know it: in a plant the minute that an activation is ahead sees to that.
        """
        await context.workload.pause()
        try:
            effective_ns = (context.workload.newest_ms + _AHEAD_MS) * NS_PER_MS
            await _activate(context, surroundings, context.random.choice(MODELS), effective_ns)
            await asyncio.sleep(context.random.uniform(0, 1.5))
            context.random_agent().kill()
            if not await wait_until(lambda: _all_know(context, effective_ns), _LOAD_TIMEOUT_S):
                raise ChaosError(f"not all agents have loaded the activated model:\n{context.fleet.log_tails()}")
            await context.workload.burst(_AHEAD_MS // 100 * len(context.workload.assets))
            context.random_agent().kill()
            killed_s = time.monotonic()
            await context.workload.burst(_AHEAD_MS // 100 * len(context.workload.assets))
        finally:
            context.workload.resume()
        return FaultOutcome("activation-crash", await context.wait_for_recovery(killed_s), RESTART_GOAL_S)

    activation = Fault("activation-crash", DESCRIPTIONS["activation-crash"], "experiment", activate_and_crash)
    return [
        *([activation] if activations else []),
        Fault("agent-clock-jump", DESCRIPTIONS["agent-clock-jump"], "experiment", move_clock),
        Fault("bundle-missing", DESCRIPTIONS["bundle-missing"], "experiment", restart_without_bundle),
        Fault("bundle-swapped", DESCRIPTIONS["bundle-swapped"], "experiment", restart_with_damaged),
    ]
