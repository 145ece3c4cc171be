"""The answers of the page's HTTP API: one model per answer, from which the OpenAPI document is made. Pure.

Times are RFC 3339 in UTC where a person reads them, epoch milliseconds where there are thousands of them. Events and
alarms are given as they were published, so their models are those of `agent.contracts`.
"""

from agent.page.api.alarms import Accepted, Alarms, Command, SentCommand
from agent.page.api.events import (
    AssetDetail,
    EventDetail,
    EventHead,
    Events,
    Period,
    PeriodRow,
    Run,
    Sum,
    Timeline,
    Trend,
)
from agent.page.api.fleet import Advice, Delta, Feed, Fleet, GroupInfo, Heartbeat, Link, Reach
from agent.page.api.health import Check, Health, Letter, LetterReason, Letters, ModelHealth, PartitionHealth, StageTimes
from agent.page.api.rebuilt import EvidenceMap, ExpertDetail, ExplainedSpan, ExplainedSum, Prototype, Rebuilt, Similar
from agent.page.api.session import Error, Login, Role, Session
from agent.page.api.signals import Mark, Marked, Normal, Samples, Signals, Trace

__all__ = [
    "Accepted",
    "Advice",
    "Alarms",
    "AssetDetail",
    "Check",
    "Command",
    "Delta",
    "Error",
    "EventDetail",
    "EventHead",
    "Events",
    "EvidenceMap",
    "ExpertDetail",
    "ExplainedSpan",
    "ExplainedSum",
    "Feed",
    "Fleet",
    "GroupInfo",
    "Health",
    "Heartbeat",
    "Letter",
    "LetterReason",
    "Letters",
    "Link",
    "Login",
    "Mark",
    "Marked",
    "ModelHealth",
    "Normal",
    "PartitionHealth",
    "Period",
    "PeriodRow",
    "Prototype",
    "Reach",
    "Rebuilt",
    "Role",
    "Run",
    "Samples",
    "SentCommand",
    "Session",
    "Signals",
    "Similar",
    "StageTimes",
    "Sum",
    "Timeline",
    "Trace",
    "Trend",
]
