"""What may alarm, where it is shown and what hides it: the rationalised catalogue the state machine reads. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from agent.contracts.alarms import Priority

Technical = Literal["no_data", "channel_dropout", "model_refused", "agent_lag", "clock_back"]

FLOOD_RULE = "flood"
"""Of the summary alarm; no configured rule may have this name."""
DAY_NS = 86_400_000_000_000
MINUTE_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Rationale:
    """Why somebody must look, and what they do then. A rule without it does not alarm."""

    priority: Priority
    cause: str
    consequence: str
    action: str
    respond_within_ns: int


@dataclass(frozen=True, slots=True)
class Rule:
    """An alarm of every asset of a group: for states of the process, or for one technical trouble."""

    name: str
    group: str
    assets: tuple[str, ...]
    rationale: Rationale
    states: frozenset[str] = frozenset()
    technical: Technical | None = None
    on_delay_ns: int = 0
    off_delay_ns: int = 0
    raise_at: float = 0.0
    clear_below: float = 0.0
    min_evidence_share: float = 0.0
    limit_ns: int | None = None
    latched: bool = False
    suppressed_by: frozenset[str] = frozenset()
    hides_children: bool = False
    shelve_chatter_ns: int | None = None
    remind_every_ns: int | None = None

    @property
    def kind(self) -> str:
        return "technical" if self.technical else "process"

    def covers(self, asset: str) -> bool:
        return any(fnmatchcase(asset, pattern) for pattern in self.assets)


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a console: what a flood and a chatter are, and which inputs are too old to mean anything."""

    flood_count: int = 10
    flood_within_ns: int = 10 * MINUTE_NS
    flood_over_below: int = 5
    chatter_count: int = 3
    chatter_within_ns: int = MINUTE_NS
    max_shelving_ns: int = 8 * 60 * MINUTE_NS
    max_event_age_ns: int = DAY_NS
    clock_jump_ns: int = 60 * MINUTE_NS
    remember_commands_ns: int = DAY_NS


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything that is configured about alarms. `consoles` and `parents` hold patterns of assets; the first fits."""

    rules: Mapping[str, Rule]
    consoles: Sequence[tuple[str, tuple[str, ...]]]
    parents: Sequence[tuple[str, str]] = ()
    limits: Limits = field(default_factory=Limits)
    groups: Mapping[str, tuple[str, ...]] | None = None

    def console_of(self, asset: str) -> str | None:
        fitting = (name for name, patterns in self.consoles if any(fnmatchcase(asset, one) for one in patterns))
        return next(fitting, None)

    def rules_of(self, group: str) -> Iterator[Rule]:
        return (rule for rule in self.rules.values() if rule.group == group)

    def parent_of(self, asset: str) -> str | None:
        fitting = (parent for pattern, parent in self.parents if fnmatchcase(asset, pattern) and parent != asset)
        return next(fitting, None)

    def knows(self, group: str, asset: str) -> bool:
        """Whether the plant has such an asset; without a list of groups every asset is believed."""
        if self.groups is None or asset == group:  # what is said of the whole group, like a refused bundle
            return True
        return any(fnmatchcase(asset, pattern) for pattern in self.groups.get(group, ()))

    def console_for(self, group: str, asset: str) -> str | None:
        """What is said of a whole group is shown at the first console."""
        return self.console_of(asset) or (self.consoles[0][0] if asset == group else None)

    def console_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self.consoles))


def alarm_id(rule: str, asset: str, channel: str | None = None) -> str:
    return f"{rule}:{asset}" if channel is None else f"{rule}:{asset}#{channel}"


def parts_of(alarm: str) -> tuple[str, str, str | None]:
    """Rule, asset and channel; the asset is empty where this is no alarm's id."""
    rule, _, rest = alarm.partition(":")
    asset, _, channel = rest.partition("#")
    return rule, asset, channel or None
