"""The rationalised alarms: which rules exist, which console shows which asset, what suppresses what. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from agent.contracts.alarms import Priority

Technical = Literal["no_data", "channel_dropout", "sensor_unhealthy", "model_refused", "agent_lag", "clock_back"]

FLOOD_RULE = "flood"
"""Rule of the summary alarm; no configured rule may have this name."""
DAY_NS = 86_400_000_000_000
MINUTE_NS = 60_000_000_000
FLEETING_NS = MINUTE_NS
"""An alarm that returns sooner than this is fleeting."""


@dataclass(frozen=True, slots=True)
class Rationale:
    """Why the operator must respond, and how. A rule without a complete rationale is not used."""

    priority: Priority
    cause: str
    consequence: str
    action: str
    respond_within_ns: int


@dataclass(frozen=True, slots=True)
class Rule:
    """One alarm per asset of a group, for states of the process or for one technical condition."""

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
    """What counts as a flood and as chatter, how old an input may be, and how much one console remembers."""

    flood_count: int = 10
    flood_within_ns: int = 10 * MINUTE_NS
    flood_over_below: int = 5
    chatter_count: int = 3
    chatter_within_ns: int = MINUTE_NS
    max_shelving_ns: int = 8 * 60 * MINUTE_NS
    max_event_age_ns: int = DAY_NS
    clock_jump_ns: int = 60 * MINUTE_NS
    remember_commands_ns: int = DAY_NS
    max_alarms: int = 100_000
    max_assets: int = 100_000
    max_commands: int = 100_000


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The alarm configuration. `consoles` and `parents` hold asset patterns; the first that matches applies."""

    rules: Mapping[str, Rule]
    consoles: Sequence[tuple[str, tuple[str, ...]]]
    parents: Sequence[tuple[str, str]] = ()
    limits: Limits = field(default_factory=Limits)
    groups: Mapping[str, tuple[str, ...]] | None = None

    def console_of(self, asset: str) -> str | None:
        matches = (name for name, patterns in self.consoles if any(fnmatchcase(asset, one) for one in patterns))
        return next(matches, None)

    def rules_of(self, group: str) -> Iterator[Rule]:
        return (rule for rule in self.rules.values() if rule.group == group)

    def parent_of(self, asset: str) -> str | None:
        matches = (parent for pattern, parent in self.parents if fnmatchcase(asset, pattern) and parent != asset)
        return next(matches, None)

    def has_asset(self, group: str, asset: str) -> bool:
        """Without a list of groups every asset is accepted."""
        if self.groups is None or asset == group:  # events about the whole group, such as a refused bundle
            return True
        return any(fnmatchcase(asset, pattern) for pattern in self.groups.get(group, ()))

    def console_for(self, group: str, asset: str) -> str | None:
        """Events about a whole group are shown at the first console."""
        return self.console_of(asset) or (self.consoles[0][0] if asset == group else None)

    def console_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self.consoles))


def alarm_id(rule: str, asset: str, channel: str | None = None) -> str:
    return f"{rule}:{asset}" if channel is None else f"{rule}:{asset}#{channel}"


def split_alarm_id(alarm: str) -> tuple[str, str, str | None]:
    """Rule, asset and channel; the asset is empty where this is not the id of an alarm."""
    rule, _, rest = alarm.partition(":")
    asset, _, channel = rest.partition("#")
    return rule, asset, channel or None
