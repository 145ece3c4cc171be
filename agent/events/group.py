"""A group of like assets and everything fixed about watching them: grid, window, rules, models, policy."""

from dataclasses import dataclass, field

from agent.events.emission import Emission
from agent.events.evidence import EvidencePolicy
from agent.events.payloads import ModelName, Origin
from agent.models.classifier import WindowClassifier
from agent.models.schedule import ActiveModel, ModelSchedule
from anchormoe.windows import Grid, Index, WindowShape
from connectors.records import Partition

NEVER_FORGET = 1 << 62
"""More steps than there will be."""


@dataclass(frozen=True, slots=True)
class Publishing:
    """What of the verdicts leaves the house, and under which name."""

    namespace: str
    emission: Emission
    evidence: EvidencePolicy
    channel_method: str | None


@dataclass(frozen=True, slots=True)
class Watched:
    """`idle_after`, `rebuild_horizon` and `forget_after` are in steps. The judge has the configured model and rules."""

    name: str
    channels: tuple[str, ...]
    grid: Grid
    shape: WindowShape
    idle_after: int
    rebuild_horizon: int
    max_assets: int
    judge: WindowClassifier
    model: ModelName
    publishing: Publishing
    forget_after: int = NEVER_FORGET
    succession: ModelSchedule = field(default_factory=ModelSchedule)

    def origin(self, asset: str, partition: Partition) -> Origin:
        return Origin(self.publishing.namespace, self.name, self.grid, self.shape, asset, partition)

    def speakers(self, ends: Index) -> list[ActiveModel]:
        """Who judges the windows with these ends. May wait for a bundle to load: call it in a thread."""
        configured = ActiveModel(self.judge, self.model)
        ends_ns = self.grid.epoch_ns + ends * self.grid.period_ns
        return [speaker or configured for speaker in self.succession.speakers(ends_ns)]
