"""What may alarm, who is shown it, and who is told. Pure."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from agent.settings.environment import LocalPath, Secret
from agent.settings.network import Http, Retries
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
    audit: Topic = Field(default="alarm-audit", description="Every command: who, when, why, and what came of it.")

    def broken_rules(self) -> Iterator[Problem]:
        names = ("inputs", "transitions", "alarms", "audit")
        for at, topic in find_duplicates([getattr(self, name) for name in names]):
            yield Problem((names[at],), f"{topic} is used twice", "give every stream its own topic")


class AlarmConsole(Section):
    """Where an operator sits; floods and hiding are judged per console."""

    name: Slug = Field(description="Name of the console.")
    assets: tuple[AssetPattern, ...] = Field(
        min_length=1, description="Assets shown there; the first console that fits."
    )


class Parent(Section):
    """An asset whose alarms may hide those of others."""

    asset: AssetId = Field(description="The parent.")
    children: tuple[AssetPattern, ...] = Field(min_length=1, description="Assets that depend on it.")


class AlarmRule(Section):
    """One alarm of every asset of a group. Without priority, cause, consequence, action and time it does not alarm."""

    name: Slug = Field(description="Name of the alarm; part of its id, do not change it later.")
    group: Slug = Field(description="Group of the assets.")
    states: tuple[Name, ...] = Field(default=(), description="States of the process that mean this alarm.")
    technical: Literal["no_data", "channel_dropout", "model_refused", "agent_lag", "clock_back"] | None = Field(
        default=None, description="Technical trouble that means this alarm, instead of states."
    )
    priority: Literal["low", "medium", "high"] | None = Field(default=None, description="How soon it matters.")
    cause: Text | None = Field(default=None, description="What is most likely wrong.")
    consequence: Text | None = Field(default=None, description="What happens if nobody acts.")
    action: Text | None = Field(default=None, description="What the operator does.")
    respond_within: Duration | None = Field(default=None, description="Time in which acting still helps.")
    on_delay: Duration | None = Field(default=None, description="The condition must last this long to alarm.")
    off_delay: Duration | None = Field(default=None, description="It must be over for this long to return.")
    raise_at: Real = Field(default=0.5, ge=0, le=1, description="Least calibrated probability of the states.")
    clear_below: Real = Field(
        default=0.4, ge=0, le=1, description="Dead-band: it holds until the probability is below."
    )
    min_evidence_share: Real = Field(
        default=0.0, ge=0, le=1, description="Least supporting part of all evidence for the state."
    )
    limit: Duration | None = Field(
        default=None, description="no_data: silence that raises it by itself; agent_lag: how late is too late."
    )
    latched: Flag = Field(default=False, description="Stays after its return until somebody resets it.")
    suppressed_by: tuple[Slug, ...] = Field(default=(), description="Alarms of the same asset that hide this one.")
    hides_children: Flag = Field(default=False, description="Hides all alarms of the asset's children.")
    shelve_chatter: Duration | None = Field(default=None, description="Shelve a chattering alarm for this long.")
    remind_every: Duration | None = Field(default=None, description="Remind while nobody has acknowledged.")

    @property
    def missing(self) -> tuple[str, ...]:
        """What keeps this rule from alarming."""
        return tuple(name for name in RATIONALE if getattr(self, name) is None)

    def broken_rules(self) -> Iterator[Problem]:
        if bool(self.states) == (self.technical is not None):
            yield Problem(("states",), "an alarm is for states or for one technical trouble", "give one of the two")
        if self.name == RESERVED:
            yield Problem(("name",), f"{RESERVED} is the name of the summary in a flood", "choose another one")
        if self.states and self.clear_below > self.raise_at:
            yield Problem(("clear_below",), f"{self.clear_below} is above raise_at", f"at most {self.raise_at}")
        if self.technical == "agent_lag" and self.limit is None:
            yield Problem(("limit",), "missing, and agent_lag needs one", 'say how late is too late, like "1m"')
        if self.limit is not None and self.technical not in ("no_data", "agent_lag"):
            yield Problem(("limit",), "without effect", "only no_data and agent_lag have a limit")
        if self.name in self.suppressed_by:
            yield Problem(("suppressed_by",), "an alarm cannot hide itself", "name another one")


class FloodLimits(Section):
    """More than a person can follow."""

    count: Count = Field(default=10, description="More alarms than these within the time are a flood.")
    within: Duration = Field(default=Duration.parse("10m"), description="The time.")
    over_below: Count = Field(default=5, description="With fewer than these within the time it is over.")

    def broken_rules(self) -> Iterator[Problem]:
        if self.over_below > self.count:
            yield Problem(("over_below",), f"{self.over_below} ends a flood before it begins", f"at most {self.count}")


class AlarmWebhook(Section):
    """An HTTP address that is told of alarms."""

    name: Slug = Field(description="Name of the receiver, for metrics and its place in the log.")
    url: Annotated[str, TextPattern(r"^https?://[^\s@]+$", "http:// or https://, without a login")] = Field(
        description="http:// or https://; for Alertmanager the address of its API, …/api/v2/alerts."
    )
    format: Literal["alertmanager", "generic"] = Field(default="generic", description="What is posted.")
    priorities: tuple[Literal["low", "medium", "high"], ...] = Field(
        default=("low", "medium", "high"), min_length=1, description="Only these."
    )
    token: Secret | None = Field(default=None, description="Bearer token: {env: VARIABLE} or {file: PATH}.")
    secret: Secret | None = Field(
        default=None, description="Key of the HMAC signature: {env: VARIABLE} or {file: PATH}."
    )
    timeout: Duration = Field(default=Duration.parse("5s"), description="Longest wait for one answer.")
    retries: Retries = Field(default=Retries(), description="Tries in a row; after them it waits for `repeat_every`.")
    repeat_every: Duration = Field(
        default=Duration.parse("1m"),
        description="Firing alarms are told again this often; so is what was not accepted.",
    )
    max_alerts: Count = Field(default=100, le=10_000, description="Most alarms per call.")


class Alarms(Section):
    """From explained events to alarms that people can work with."""

    topics: AlarmTopics = Field(default=AlarmTopics(), description="The topic of each stream.")
    partitions: Count = Field(default=4, le=1000, description="Of the input log; do not change it later.")
    replication: Count = Field(default=1, le=10, description="Copies of each topic that is made; 3 in production.")
    session: Duration = Field(
        default=Duration.parse("15s"),
        description="A worker that is silent this long is replaced; the broker has limits.",
    )
    directory: LocalPath | None = Field(
        default=None,
        description="Where Faust may put files; else in the system's place for them. Nothing is kept there.",
    )
    tick: Duration = Field(default=Duration.parse("1s"), description="Time between two ticks in the input log.")
    consoles: tuple[AlarmConsole, ...] = Field(
        default=(AlarmConsole(name="main", assets=("*",)),), min_length=1, description="Where alarms are shown."
    )
    parents: tuple[Parent, ...] = Field(default=(), description="Assets whose alarms may hide those of others.")
    rules: tuple[AlarmRule, ...] = Field(min_length=1, description="What may alarm.")
    flood: FloodLimits = Field(default=FloodLimits(), description="More than a person can follow.")
    max_shelving: Duration = Field(default=Duration.parse("8h"), description="Longest shelving.")
    max_event_age: Duration = Field(
        default=Duration.parse("1d"), description="Older events, and later ones, are ignored."
    )
    webhooks: tuple[AlarmWebhook, ...] = Field(default=(), description="Who is told.")
    http: Http | None = Field(default=Http(port=8788), description="Commands and metrics; null: none.")

    def broken_rules(self) -> Iterator[Problem]:
        for section in ("consoles", "rules", "webhooks"):
            for at, name in find_duplicates([one.name for one in getattr(self, section)]):
                yield Problem((section, at, "name"), f"{name} is there twice", "give each its own name")
        known = {rule.name for rule in self.rules}
        for at, rule in enumerate(self.rules):
            for cause in rule.suppressed_by:
                if cause not in known:
                    yield Problem(("rules", at, "suppressed_by"), f"there is no alarm {cause}", "name a rule")
