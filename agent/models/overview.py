"""Bundles and activations together: which bundles exist, and which is active where and when. Pure."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from agent.models.activations import Activation, decode_activation, position_in_force, predecessor, timeline
from agent.models.bundle_directory import StoredBundle, find_bundle
from connectors.errors import RecordError
from connectors.timestamps import format_iso


@dataclass(frozen=True, slots=True)
class ActivePeriod:
    """The window ends for which a bundle is active in a group; None is without limit."""

    group: str
    digest: str
    since_ns: int | None
    until_ns: int | None
    by: str | None = None
    reason: str | None = None

    def state(self, now_ns: int) -> str:
        if self.since_ns is not None and self.since_ns > now_ns:
            return "pending"
        return "active" if self.until_ns is None or self.until_ns > now_ns else "past"

    def describe(self) -> str:
        since = "" if self.since_ns is None else f" since {format_iso(self.since_ns)}"
        until = "" if self.until_ns is None else f" until {format_iso(self.until_ns)}"
        return f"{self.group}{since}{until}"

    def as_json(self, now_ns: int) -> dict[str, Any]:
        return {
            "group": self.group,
            "state": self.state(now_ns),
            "since": None if self.since_ns is None else format_iso(self.since_ns),
            "until": None if self.until_ns is None else format_iso(self.until_ns),
            "by": self.by,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class ModelOverview:
    """The bundles of the directory, each group's configured bundle, and each group's activations in order of time."""

    bundles: Sequence[StoredBundle]
    configured: Mapping[str, StoredBundle]
    timelines: Mapping[str, tuple[Activation, ...]]

    @classmethod
    def of(
        cls, values: Sequence[bytes], bundles: Sequence[StoredBundle], configured: Mapping[str, StoredBundle]
    ) -> "ModelOverview":
        """Entries that are not activations are skipped, as the agents do."""
        activations = []
        for value in values:
            with suppress(RecordError):
                activations.append(decode_activation(value))
        return cls(bundles, configured, {group: timeline(activations, group) for group in configured})

    @property
    def digests(self) -> set[str]:
        return {each.digest for each in [*self.bundles, *self.configured.values()] if each.problem is None}

    def propose(self, group: str, wanted: str) -> Activation:
        """An activation that does not say yet when, by whom and why. Raises ModelError."""
        found = find_bundle(list(self.bundles), wanted)
        return Activation(group, 0, found.digest, found.directory, by="", written_ns=0, reason="")

    def predecessor(self, group: str) -> Activation | None:
        """What was active before the last activation; None when no other bundle ever was."""
        configured = Activation(group, 0, self.configured[group].digest, None, by="", written_ns=0, reason="")
        return predecessor(self.timelines[group], configured)

    def complete(self, proposal: Activation, effective_ns: int, *, by: str, now_ns: int, reason: str) -> Activation:
        return replace(proposal, effective_ns=effective_ns, by=by, written_ns=now_ns, reason=reason)

    def periods(self, group: str) -> list[ActivePeriod]:
        """In order of time, the configured bundle first."""
        line = self.timelines[group]
        ends = [*(each.effective_ns for each in line), None]
        first = ActivePeriod(group, self.configured[group].digest, None, ends[0])
        later = [
            ActivePeriod(group, each.digest, each.effective_ns, until, each.by, each.reason)
            for each, until in zip(line, ends[1:], strict=True)
        ]
        return [first, *later]

    def describe(self, activation: Activation) -> str:
        """What will happen, in one line."""
        line = self.timelines[activation.group]
        before = position_in_force(line, activation.effective_ns - 1)
        old = line[before].digest if before >= 0 else self.configured[activation.group].digest
        change = (
            f"{activation.digest[:12]} is active for windows that end at or after {format_iso(activation.effective_ns)}"
        )
        return f"{activation.group}: {change}; until then {old[:12]}"

    def rows(self, now_ns: int) -> list[tuple[str, ...]]:
        """For people: bundle, name, version, digest, accuracy, created, where it is or will be active."""
        return [
            (
                bundle.directory or "–",
                bundle.name,
                bundle.version,
                bundle.digest[:12],
                "" if bundle.accuracy is None else f"{bundle.accuracy:.3f}",
                format_iso(bundle.created_ns // 10**9 * 10**9) if bundle.created_ns else "",
                bundle.problem or _describe_periods(periods, now_ns),
            )
            for bundle, periods in self._with_periods()
        ]

    def as_json(self, now_ns: int) -> list[dict[str, Any]]:
        return [
            {
                "bundle": bundle.directory,
                "name": bundle.name,
                "version": bundle.version,
                "digest": bundle.digest,
                "accuracy": bundle.accuracy,
                "created": format_iso(bundle.created_ns) if bundle.created_ns else None,
                "problem": bundle.problem,
                "groups": [period.as_json(now_ns) for period in periods],
            }
            for bundle, periods in self._with_periods()
        ]

    def _with_periods(self) -> list[tuple[StoredBundle, list[ActivePeriod]]]:
        """The directory's bundles, then configured ones elsewhere, then activated ones that no longer exist."""
        periods = [period for group in self.timelines for period in self.periods(group)]
        known = {bundle.digest for bundle in self.bundles}
        others = {period.digest: StoredBundle(None, period.digest, problem="missing") for period in periods}
        others |= {bundle.digest: bundle for bundle in self.configured.values()}
        bundles = [*self.bundles, *(bundle for digest, bundle in others.items() if digest not in known)]
        return [(bundle, [period for period in periods if period.digest == bundle.digest]) for bundle in bundles]


def _describe_periods(periods: Sequence[ActivePeriod], now_ns: int) -> str:
    """Active and pending ones; past ones are in the JSON output."""
    described = [(period.state(now_ns), period.describe()) for period in periods]
    return "; ".join(text if state == "active" else f"pending: {text}" for state, text in described if state != "past")
