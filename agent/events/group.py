"""What the agent does with the windows of a group: its models, when each is active, and what is published."""

from dataclasses import dataclass, field

from agent.events.emission import Emission
from agent.events.payloads import Origin
from agent.events.spans import EvidencePolicy
from agent.models.schedule import ActiveModel, ModelSchedule
from agent.windows.spec import GroupSpec
from anchormoe.windows import Index
from connectors.records import Partition


@dataclass(frozen=True, slots=True)
class Publishing:
    """What is published, and under which namespace."""

    namespace: str
    emission: Emission
    evidence: EvidencePolicy


@dataclass(frozen=True, slots=True)
class GroupRuntime:
    """`configured` is the model of the settings; it is active until the first activation of `schedule`."""

    spec: GroupSpec
    configured: ActiveModel
    publishing: Publishing
    schedule: ModelSchedule = field(default_factory=ModelSchedule)
    hysteresis_milli: int | None = None
    """what another state needs to win, in thousandths of a nat; None: every window speaks for itself"""

    def origin(self, asset: str, partition: Partition) -> Origin:
        spec = self.spec
        return Origin(self.publishing.namespace, spec.name, spec.grid, spec.shape, asset, partition)

    @property
    def current_model(self) -> ActiveModel:
        """The model of the newest window that was classified. Waits for nothing."""
        return self.schedule.loaded_at_newest() or self.configured

    def active_models(self, ends: Index) -> list[ActiveModel]:
        """The model for each window that ends at these indices. May wait for a bundle to load: call it in a thread."""
        grid = self.spec.grid
        scheduled = self.schedule.active_models(grid.epoch_ns + ends * grid.period_ns)
        return [model or self.configured for model in scheduled]
