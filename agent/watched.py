"""A group of like assets and everything fixed about watching them: grid, window, rules, model, policy. Pure."""

from dataclasses import dataclass

from agent.events import ModelName, Origin
from agent.evidence import EvidencePolicy
from agent.judgement import Judge
from agent.standing import Emission
from anchormoe.windows import Grid, WindowShape
from connectors.records import Partition


@dataclass(frozen=True, slots=True)
class Publishing:
    """What of the verdicts leaves the house, and under which name."""

    namespace: str
    emission: Emission
    evidence: EvidencePolicy
    channel_method: str | None


@dataclass(frozen=True, slots=True)
class Watched:
    """`idle_after` and `rebuild_horizon` are in steps. The judge carries the model and the rules around it."""

    name: str
    channels: tuple[str, ...]
    grid: Grid
    shape: WindowShape
    idle_after: int
    rebuild_horizon: int
    max_assets: int
    judge: Judge
    model: ModelName
    publishing: Publishing

    def origin(self, asset: str, partition: Partition) -> Origin:
        return Origin(self.publishing.namespace, self.name, self.grid, self.shape, asset, partition)
