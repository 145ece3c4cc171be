"""Alarm rules, consoles, and the receivers of alarms. Pure."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from agent.settings.environment import LocalPath, Secret
from agent.settings.http import Http
from agent.settings.network import Retries
from agent.settings.problems import Problem
from agent.settings.section import (
    AssetId,
    AssetPattern,
    Count,
    Flag,
    Name,
    Real,
    Section,
    Slug,
    TextPattern,
    Topic,
    find_duplicates,
)
from agent.settings.units import Duration

Text = Annotated[str, Field(min_length=1, max_length=2000)]
RATIONALE = ("priority", "cause", "consequence", "action", "respond_within")
RESERVED = "flood"


class AlarmTopics(Section):
    """The topic of each stream of the alarms."""

    inputs: Topic = Field(default="alarm-inputs", description="Events, commands and ticks, keyed by console.")
    transitions: Topic = Field(default="alarm-transitions", description="Every change of an alarm's state.")
    alarms: Topic = Field(default="alarms", description="The present state per alarm; compacted.")
    audit: Topic = Field(default="alarm-audit", description="Every command: who, when, why, and the outcome.")

    def broken_rules(self) -> Iterator[Problem]:
        names = ("inputs", "transitions", "alarms", "audit")
        for at, topic in find_duplicates([getattr(self, name) for name in names]):
            yield Problem((names[at],), f"{topic} is used twice", "give every stream its own topic")


class AlarmConsole(Section):
    """An operator's console. Floods are detected per console."""

    name: Slug = Field(description="Name of the console.")
    assets: tuple[AssetPattern, ...] = Field(
        min_length=1, description="Assets shown there; the first console that matches an asset shows it."
    )


class Parent(Section):
    """An asset whose alarms may suppress those of other assets."""

    asset: AssetId = Field(description="The parent.")
    children: tuple[AssetPattern, ...] = Field(min_length=1, description="Assets that depend on it.")


class AlarmRule(Section):
    """One alarm per asset of a group. It is not used without priority, cause, consequence, action, respond_within."""

    name: Slug = Field(description="Name of the rule; part of the alarms' ids, so do not change it later.")
    group: Slug = Field(description="Group of the assets.")
    states: tuple[Name, ...] = Field(default=(), description="States of the process that raise this alarm.")
    technical: (
        Literal["no_data", "channel_dropout", "sensor_unhealthy", "model_refused", "agent_lag", "clock_back"] | None
    ) = Field(default=None, description="Technical condition that raises this alarm, instead of states.")
    priority: Literal["low", "medium", "high"] | None = Field(default=None, description="How urgent it is.")
    cause: Text | None = Field(default=None, description="The most likely cause.")
    consequence: Text | None = Field(default=None, description="What happens if nobody responds.")
    action: Text | None = Field(default=None, description="What the operator should do.")
    respond_within: Duration | None = Field(default=None, description="Time within which a response still helps.")
    on_delay: Duration | None = Field(
        default=None, description="The condition must last this long before the alarm is raised."
    )
    off_delay: Duration | None = Field(
        default=None, description="The condition must be over for this long before the alarm returns."
    )
    raise_at: Real = Field(
        default=0.5, ge=0, le=1, description="Least calibrated probability of the states that raises the alarm."
    )
    clear_below: Real = Field(
        default=0.4, ge=0, le=1, description="Dead-band: the condition holds until the probability is below this."
    )
    min_evidence_share: Real = Field(
        default=0.0, ge=0, le=1, description="Least share of the evidence that supports the state."
    )
    limit: Duration | None = Field(
        default=None,
        description="no_data: time without events after which it is raised; agent_lag: the longest lag allowed.",
    )
    latched: Flag = Field(default=False, description="After its return it stays until it is reset.")
    suppressed_by: tuple[Slug, ...] = Field(
        default=(), description="Rules whose alarms of the same asset suppress this one."
    )
    hides_children: Flag = Field(default=False, description="Suppresses all alarms of the asset's children.")
    shelve_chatter: Duration | None = Field(default=None, description="Shelve a chattering alarm for this long.")
    remind_every: Duration | None = Field(default=None, description="Repeat the alarm until it is acknowledged.")

    @property
    def missing(self) -> tuple[str, ...]:
        """What the rationale lacks; the rule is not used without it."""
        return tuple(name for name in RATIONALE if getattr(self, name) is None)

    def broken_rules(self) -> Iterator[Problem]:
        if bool(self.states) == (self.technical is not None):
            yield Problem(("states",), "a rule is for states or for one technical condition", "set one of the two")
        if self.name == RESERVED:
            yield Problem(("name",), f"{RESERVED} is reserved for the summary of a flood", "choose another name")
        if self.states and self.clear_below > self.raise_at:
            yield Problem(("clear_below",), f"{self.clear_below} is above raise_at", f"at most {self.raise_at}")
        if self.technical == "agent_lag" and self.limit is None:
            yield Problem(("limit",), "missing, but agent_lag needs one", 'set the longest lag allowed, like "1m"')
        if self.limit is not None and self.technical not in ("no_data", "agent_lag"):
            yield Problem(("limit",), "has no effect", "remove it: only no_data and agent_lag have a limit")
        if self.name in self.suppressed_by:
            yield Problem(("suppressed_by",), "an alarm cannot suppress itself", "remove it")


class FloodLimits(Section):
    """More alarms than an operator can follow."""

    count: Count = Field(default=10, description="More alarms than this within `within` are a flood.")
    within: Duration = Field(default=Duration.parse("10m"), description="Time in which the alarms are counted.")
    over_below: Count = Field(default=5, description="The flood is over with fewer alarms than this within `within`.")

    def broken_rules(self) -> Iterator[Problem]:
        if self.over_below > self.count:
            yield Problem(("over_below",), f"{self.over_below} would end a flood as it begins", f"at most {self.count}")


class AlarmWebhook(Section):
    """An HTTP receiver of alarms."""

    name: Slug = Field(description="Name of the receiver, for metrics and its consumer group; do not change it later.")
    url: Annotated[str, TextPattern(r"^https?://[^\s@]+$", "http:// or https://, without a login")] = Field(
        description="http:// or https://; for Alertmanager the address of its API, …/api/v2/alerts."
    )
    format: Literal["alertmanager", "generic"] = Field(default="generic", description="Format of the requests.")
    priorities: tuple[Literal["low", "medium", "high"], ...] = Field(
        default=("low", "medium", "high"), min_length=1, description="Send only alarms of these priorities."
    )
    token: Secret | None = Field(default=None, description="Bearer token: {env: VARIABLE} or {file: PATH}.")
    secret: Secret | None = Field(
        default=None, description="Key of the HMAC signature: {env: VARIABLE} or {file: PATH}."
    )
    timeout: Duration = Field(default=Duration.parse("5s"), description="Longest wait for one answer.")
    retries: Retries = Field(
        default=Retries(), description="Tries per request; then the alarms wait for `repeat_every`."
    )
    repeat_every: Duration = Field(
        default=Duration.parse("1m"),
        description="How often firing alarms, and alarms that were not accepted, are sent again.",
    )
    max_alerts: Count = Field(default=100, le=10_000, description="Most alarms per request.")


class Alarms(Section):
    """Alarms by the rules of ISA-18.2, from explained events."""

    topics: AlarmTopics = Field(default=AlarmTopics(), description="The topic of each stream.")
    partitions: Count = Field(default=4, le=1000, description="Partitions of the input log; do not change it later.")
    replication: Count = Field(
        default=1, le=10, description="Replicas of the topics that are created; use 3 in production."
    )
    session: Duration = Field(
        default=Duration.parse("15s"),
        description="A worker without a heartbeat for this long is replaced; the broker has limits for it.",
    )
    directory: LocalPath | None = Field(
        default=None,
        description="Directory for Faust's files, none of which is needed later; null: a temporary directory.",
    )
    tick: Duration = Field(default=Duration.parse("1s"), description="Time between two ticks in the input log.")
    consoles: tuple[AlarmConsole, ...] = Field(
        default=(AlarmConsole(name="main", assets=("*",)),), min_length=1, description="Where alarms are shown."
    )
    parents: tuple[Parent, ...] = Field(
        default=(), description="Assets whose alarms may suppress those of other assets."
    )
    rules: tuple[AlarmRule, ...] = Field(min_length=1, description="The alarm rules.")
    flood: FloodLimits = Field(default=FloodLimits(), description="When a flood begins and ends.")
    max_shelving: Duration = Field(default=Duration.parse("8h"), description="Longest shelving.")
    max_event_age: Duration = Field(
        default=Duration.parse("1d"), description="Events that are older, or further in the future, are ignored."
    )
    webhooks: tuple[AlarmWebhook, ...] = Field(default=(), description="HTTP receivers of alarms.")
    http: Http | None = Field(
        default=Http(port=8788), description="HTTP API with alarms, commands and metrics; null: none."
    )

    def broken_rules(self) -> Iterator[Problem]:
        for section in ("consoles", "rules", "webhooks"):
            for at, name in find_duplicates([one.name for one in getattr(self, section)]):
                yield Problem((section, at, "name"), f"duplicate name {name}", "give each its own name")
        known = {rule.name for rule in self.rules}
        for at, rule in enumerate(self.rules):
            for cause in rule.suppressed_by:
                if cause not in known:
                    yield Problem(
                        ("rules", at, "suppressed_by"), f"there is no rule {cause}", "name a rule of this list"
                    )
