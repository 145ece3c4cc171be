"""The last state of each asset and what an emission policy makes of the next one. Pure."""

from dataclasses import dataclass
from typing import Literal

from agent.models.classifier import Classification

Policy = Literal["changes", "all", "changes+heartbeat"]


@dataclass(frozen=True, slots=True)
class AssetState:
    """An asset's state at window end `end`, so since the window that ended at `since`; `reason` of an `unknown`."""

    end: int
    state: str
    since: int
    missing: tuple[str, ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Emission:
    """When a state is published. `heartbeat` is in steps, 0 for none; beats fall on grid multiples, not on start-up."""

    policy: Policy = "changes"
    heartbeat: int = 0

    def wanted(self, *, changed: bool, end: int) -> bool:
        beat = self.policy == "changes+heartbeat" and self.heartbeat > 0 and end % self.heartbeat == 0
        return changed or self.policy == "all" or beat


def state_one_hop_before(standing: AssetState | None, end: int, hop: int) -> AssetState | None:
    """The state one hop before, if there was such a window. Anything older is not "the previous state"."""
    return standing if standing is not None and standing.end == end - hop else None


def next_state(previous: AssetState | None, verdict: Classification, end: int) -> AssetState:
    same = previous is not None and previous.state == verdict.state
    since = previous.since if same and previous is not None else end
    return AssetState(end, verdict.state, since, verdict.missing, verdict.reason)
