"""The state of an asset from window to window. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from agent.windows.hysteresis import Tracks


@dataclass(frozen=True, slots=True)
class SensorFault:
    """A channel's values were implausible, lastly at index `last`; `finding` is the kind of fault."""

    channel: str
    finding: str
    last: int


@dataclass(frozen=True, slots=True)
class AssetState:
    """The state in the window that ended at `end`, unchanged since the one that ended at `since` (grid indices).

    `missing` are the channels that were missing in that window, `reason` is why the state is `unknown`, `sensors` are
    the channels with implausible values. `tracks` are what the state follows from where there is hysteresis.
    """

    end: int
    state: str
    since: int
    missing: tuple[str, ...]
    reason: str | None = None
    sensors: tuple[SensorFault, ...] = ()
    tracks: Tracks | None = None


StateChanges = Mapping[str, AssetState | None]
"""The new state by asset; None where the asset no longer has one."""


def state_one_hop_before(last: AssetState | None, end: int, hop: int) -> AssetState | None:
    """The state of the window one hop earlier, if there was one; an older state is not the previous state."""
    return last if last is not None and last.end == end - hop else None


def next_state(
    previous: AssetState | None,
    *,
    end: int,
    state: str,
    missing: tuple[str, ...],
    reason: str | None,
    sensors: tuple[SensorFault, ...] = (),
    tracks: Tracks | None = None,
) -> AssetState:
    since = previous.since if previous is not None and previous.state == state else end
    return AssetState(end, state, since, missing, reason, sensors, tracks)


def apply_changes(states: dict[str, AssetState], changes: StateChanges) -> None:
    for asset, state in changes.items():
        if state is None:
            states.pop(asset, None)
        else:
            states[asset] = state
