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
    forgotten after `expire_after_steps`. A partition holds at most `max_assets` of the group.
    """

    name: str
    channels: tuple[str, ...]
    grid: Grid
    shape: WindowShape
    idle_after_steps: int
    rebuild_horizon_steps: int
    max_assets: int
    expire_after_steps: int = NEVER_EXPIRE_STEPS

    @classmethod
    def from_settings(cls, group: ResolvedGroup, *, assets_per_partition: int) -> "GroupSpec":
        return cls(
            name=group.name,
            channels=group.channel_names,
            grid=group.grid,
            shape=group.shape,
            idle_after_steps=group.idle_after_steps,
            rebuild_horizon_steps=group.rebuild_horizon_steps,
            max_assets=min(group.max_assets, assets_per_partition),
            expire_after_steps=group.expire_after_steps,
        )
