"""How the windows of a group are laid out, and the limits that hold for them. Pure."""

from dataclasses import dataclass

from agent.settings import ResolvedGroup
from anchormoe.windows import Grid, WindowShape

NEVER_EXPIRE_STEPS = 1 << 62
"""More steps than any grid has."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The group's channels, its grid of event time and the shape of its windows on that grid.

    An asset is idle after `idle_after_steps` without a sample, no longer rebuilt after `rebuild_horizon_steps`, and
    forgotten after `expire_after_steps`; one record advances the group's clock, by which that is decided, by at most
    `max_advance_steps`. A partition holds at most `max_assets` of the group, all owned ones together `total_assets`.
    The state of a window may depend on the `memory_hops` windows before it.
    """

    name: str
    channels: tuple[str, ...]
    grid: Grid
    shape: WindowShape
    idle_after_steps: int
    rebuild_horizon_steps: int
    max_assets: int
    expire_after_steps: int = NEVER_EXPIRE_STEPS
    max_advance_steps: int | None = None
    total_assets: int | None = None
    memory_hops: int = 1

    @classmethod
    def from_settings(
        cls, group: ResolvedGroup, *, assets_per_partition: int, max_clock_skew_ns: int | None = None
    ) -> "GroupSpec":
        return cls(
            name=group.name,
            channels=group.channel_names,
            grid=group.grid,
            shape=group.shape,
            idle_after_steps=group.idle_after_steps,
            rebuild_horizon_steps=group.rebuild_horizon_steps,
            max_assets=min(group.max_assets, assets_per_partition),
            expire_after_steps=group.expire_after_steps,
            max_advance_steps=_max_advance_steps(group, max_clock_skew_ns),
            total_assets=group.max_assets,
            memory_hops=group.memory_hops,
        )

    @property
    def memory_steps(self) -> int:
        return self.memory_hops * self.shape.hop


def _max_advance_steps(group: ResolvedGroup, max_clock_skew_ns: int | None) -> int:
    """The allowed skew; without one, as much as makes no other asset expire."""
    if max_clock_skew_ns is None:
        return max(group.expire_after_steps - 1, 1)
    return max(-(-max_clock_skew_ns // group.grid.period_ns), 1)
