"""What becomes of ingested batches: events to publish, states of assets, faults. Values that nobody changes."""

from dataclasses import dataclass, field

from agent.events.fault import Fault
from agent.events.payloads import Event, Origin
from agent.windows.asset_state import AssetState, StateChanges
from anchormoe.windows import Floats


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """An event and its asset; for an explained state also the asset's state and the window (C, T) behind it."""

    event: Event
    origin: Origin
    channels: tuple[str, ...]
    state: AssetState | None = None
    window: Floats | None = None


@dataclass(frozen=True, slots=True)
class WindowResult:
    """The state of an asset after a window, published or not. `probability` is that of the most likely class."""

    asset: str
    group: str
    state: AssetState
    time_ns: int
    since_ns: int
    probability: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What follows from an ingested batch, in log order, the states that it leaves behind, and what raised."""

    group: str
    events: list[OutgoingEvent]
    windows: list[WindowResult]
    changes: StateChanges
    faults: list[Fault] = field(default_factory=list)
