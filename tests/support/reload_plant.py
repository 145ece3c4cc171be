"""Models that are activated in the small plant of `tests.support.plant`: rules with digests, and their activations."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agent.events.group import GroupRuntime
from agent.health.status import RuntimeStatus
from agent.models.activations import Activation, encode_activation
from agent.models.compatibility import CompatibleBundles
from agent.runtime.instruments import Instruments
from agent.runtime.model_reload import ModelReloader, ReloadableGroup
from agent.runtime.pipeline import Endpoints, Pipeline, PipelineLimits
from agent.settings import Group, ResolvedGroup, reconcile
from anchormoe.bundle.config import BundleConfig
from anchormoe.errors import ModelError
from connectors.append_log import MemoryAppendLog
from connectors.memory import MemoryLog, MemorySource
from tests.support.offline_plant import FACTS
from tests.support.plant import ThresholdModel, decoder, pumps

STATED = Group.model_validate(
    {
        "name": "pumps",
        "assets": ["*"],
        "model": {"bundle": "configured"},
        "window": {"hop": 2, "lateness": 1, "idle_after": "20s"},
        "hysteresis": {"enabled": False},
        "max_assets": 100,
    }
)
CONFIGURED = "d" * 64
"""The digest of the model in `tests.support.plant`."""


class NamedRule(ThresholdModel):
    """The same rule under another digest; with `turned`, the opposite one."""

    def __init__(self, config: BundleConfig, *, turned: bool = False) -> None:
        self.config = SimpleNamespace(**{name: getattr(config, name) for name in config.__slots__})
        self._sign = -1.0 if turned else 1.0

    def predict(self, windows: Any, mask: Any) -> Any:
        return super().predict(self._sign * windows, mask)


def digest(letter: str) -> str:
    return letter * 64


@dataclass
class Shelf:
    """Bundles by the name of their directory. `loads` counts how often each was loaded."""

    models: Mapping[str, Any]
    loads: list[str]

    def load(self, directory: Path) -> Any:
        self.loads.append(directory.name)
        if directory.name not in self.models:
            raise ModelError(f"{directory.name}: damaged")
        return self.models[directory.name]


def shelf(*letters: str, **others: Any) -> Shelf:
    """Bundles `x`, `y` … with digests xxx…, yyy…, whose states are the opposite of the configured model's."""
    made = {letter: NamedRule(replace(FACTS, digest=digest(letter)), turned=True) for letter in letters}
    return Shelf({**made, **others}, [])


def activation(second: int, bundle: str | None, *, of: str | None = None, group: str = "pumps") -> Activation:
    """In force for windows that end at or after this second."""
    named = of or (CONFIGURED if bundle is None else digest(bundle))
    return Activation(group, second * 10**9, named, bundle, "ada", 0, "test")


def running(directory: Path = Path("bundles")) -> ResolvedGroup:
    return replace(reconcile(STATED, FACTS), bundle=directory / "configured")


def reloader(
    group: GroupRuntime,
    values: list[bytes],
    bundles: Shelf,
    *,
    now_s: int = 0,
    status: RuntimeStatus | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> ModelReloader:
    compatible = CompatibleBundles(Path("bundles"), STATED, running(), bundles.load)
    groups = {"pumps": ReloadableGroup(group, compatible)}
    return ModelReloader(
        MemoryAppendLog(values), groups, status or RuntimeStatus(), clock=clock, now_ns=lambda: now_s * 10**9
    )


def pipeline_with(
    log: MemoryLog, sink: Any, store: Any, activations: Sequence[Activation], bundles: Shelf, *, limits: PipelineLimits
) -> Pipeline:
    group, instruments = pumps(policy="all"), Instruments()
    values = [encode_activation(each) for each in activations]
    return Pipeline(
        Endpoints(MemorySource(log, bounded=True), store, sink),
        decoder(),
        {"pumps": group},
        limits,
        instruments=instruments,
        models=reloader(group, values, bundles, status=instruments.status),
    )
