"""Bundles and activations side by side: what there is, what speaks where and when, what may come next. Pure."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from agent.models.activations import Activation, decode_activation, in_force, predecessor, timeline
from agent.models.bundle_directory import StoredBundle, find_bundle
from connectors.errors import RecordError
from connectors.timestamps import format_iso


@dataclass(frozen=True, slots=True)
class ActivePeriod:
    """A stretch of window ends in which a bundle speaks in a group; None is for ever."""

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

    def told(self) -> str:
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
    """The bundles of the directory, each group's configured one, and each group's activations in order."""

    bundles: Sequence[StoredBundle]
    configured: Mapping[str, StoredBundle]
    lines: Mapping[str, tuple[Activation, ...]]

    @classmethod
    def of(
        cls, values: Sequence[bytes], bundles: Sequence[StoredBundle], configured: Mapping[str, StoredBundle]
    ) -> "ModelOverview":
        """What is no activation is left out, as the agents do."""
        activations = []
        for value in values:
            with suppress(RecordError):
                activations.append(decode_activation(value))
        return cls(bundles, configured, {group: timeline(activations, group) for group in configured})

    @property
    def digests(self) -> set[str]:
        return {each.digest for each in [*self.bundles, *self.configured.values()] if each.problem is None}

    def proposal(self, group: str, wanted: str) -> Activation:
        """A bundle for a group; when, by whom and why is still open. Raises ModelError."""
        found = find_bundle(list(self.bundles), wanted)
        return Activation(group, 0, found.digest, found.place, by="", written_ns=0, reason="")

    def predecessor(self, group: str) -> Activation | None:
        """What spoke before the last one; None where nothing else ever did."""
        own = Activation(group, 0, self.configured[group].digest, None, by="", written_ns=0, reason="")
        return predecessor(self.lines[group], own)

    def complete(self, proposal: Activation, effective_ns: int, *, by: str, now_ns: int, reason: str) -> Activation:
        return replace(proposal, effective_ns=effective_ns, by=by, written_ns=now_ns, reason=reason)

    def turns(self, group: str) -> list[ActivePeriod]:
        """In order of time, the configured bundle first."""
        line = self.lines[group]
        ends = [*(each.effective_ns for each in line), None]
        first = ActivePeriod(group, self.configured[group].digest, None, ends[0])
        later = [
            ActivePeriod(group, each.digest, each.effective_ns, until, each.by, each.reason)
            for each, until in zip(line, ends[1:], strict=True)
        ]
        return [first, *later]

    def told(self, activation: Activation) -> str:
        """What will happen, in one line."""
        line = self.lines[activation.group]
        before = in_force(line, activation.effective_ns - 1)
        old = line[before].digest if before >= 0 else self.configured[activation.group].digest
        speaks = f"{activation.digest[:12]} judges windows from {format_iso(activation.effective_ns)} on"
        return f"{activation.group}: {speaks}, until then {old[:12]}"

    def rows(self, now_ns: int) -> list[tuple[str, ...]]:
        """For people: bundle, name, version, digest, accuracy, created, where it speaks or will speak."""
        return [
            (
                bundle.place or "–",
                bundle.name,
                bundle.version,
                bundle.digest[:12],
                "" if bundle.accuracy is None else f"{bundle.accuracy:.3f}",
                format_iso(bundle.created_ns // 10**9 * 10**9) if bundle.created_ns else "",
                bundle.problem or _speaks(turns, now_ns),
            )
            for bundle, turns in self._with_turns()
        ]

    def as_json(self, now_ns: int) -> list[dict[str, Any]]:
        return [
            {
                "bundle": bundle.place,
                "name": bundle.name,
                "version": bundle.version,
                "digest": bundle.digest,
                "accuracy": bundle.accuracy,
                "created": format_iso(bundle.created_ns) if bundle.created_ns else None,
                "problem": bundle.problem,
                "groups": [turn.as_json(now_ns) for turn in turns],
            }
            for bundle, turns in self._with_turns()
        ]

    def _with_turns(self) -> list[tuple[StoredBundle, list[ActivePeriod]]]:
        """The directory's, then configured ones that lie elsewhere, then those that spoke and are no longer there."""
        turns = [turn for group in self.lines for turn in self.turns(group)]
        here = {bundle.digest for bundle in self.bundles}
        elsewhere = {bundle.digest: bundle for bundle in self.configured.values() if bundle.digest not in here}
        gone = {turn.digest: StoredBundle(None, turn.digest, problem="missing") for turn in turns}
        others = [bundle for digest, bundle in (gone | elsewhere).items() if digest not in here]
        return [
            (bundle, [turn for turn in turns if turn.digest == bundle.digest]) for bundle in [*self.bundles, *others]
        ]


def _speaks(turns: Sequence[ActivePeriod], now_ns: int) -> str:
    """Active and pending ones; the past is in the JSON."""
    told = [(turn.state(now_ns), turn.told()) for turn in turns]
    return "; ".join(text if state == "active" else f"pending: {text}" for state, text in told if state != "past")
