"""All assets, and what changes about them. Pure."""

from typing import Any, Literal

from agent.contracts.base import Contract, contract_field

Link = Literal["live", "connecting", "lost"]


class Advice(Contract):
    """What to do about some states, as the plant's engineers wrote it down: an alarm rule, or `page.advice`."""

    states: list[str] = contract_field("The states it is for.")
    action: str = contract_field("What to do.")
    cause: str = contract_field("The most likely cause; may be empty.")
    consequence: str = contract_field("What happens if nobody acts; may be empty.")
    rule: str = contract_field("Name of the alarm rule; empty: it is from `page.advice`.")


class GroupInfo(Contract):
    """A group of assets with one model."""

    name: str = contract_field("Name of the group.")
    classes: list[str] = contract_field("The classes of its model.")
    channels: list[str] = contract_field("The channels of its model.")
    period_ms: float = contract_field("Time between two samples.", unit="ms")
    window_ms: float = contract_field("Length of a window.", unit="ms")
    hop_ms: float = contract_field("Time between the ends of two windows.", unit="ms")
    advice: list[Advice] = contract_field("What to do, by state.", default_factory=list)


class Reach(Contract):
    """How far back the page can look; bounded, the oldest go first."""

    events: int = contract_field("Events that it holds.", ge=0)
    bytes: int = contract_field("Memory of them.", unit="byte", ge=0)
    oldest_ms: int | None = contract_field("Time of the oldest; null without any.", unit="ms")
    dropped: int = contract_field("Events that were dropped to stay within the bounds.", ge=0)
    unreadable: int = contract_field("Records of the topics that are no events this version can read.", ge=0)


class Feed(Contract):
    """Where the data come from, and whether they still come. Not connected is never "all is well"."""

    kind: Literal["agent", "topics"] = contract_field("As in the session.")
    link: Link = contract_field("`live`, `connecting` (not everything was read yet), `lost`.")
    reason: str = contract_field("Why it is not live, for people; else empty.")
    since_ms: int = contract_field("Since when the link is so.", unit="ms")
    newest_ms: int | None = contract_field("Event time of the newest window; null without any.", unit="ms")
    heard_ms: int | None = contract_field("When the feed last said anything, by the server's clock.", unit="ms")
    lag: int | None = contract_field("Records that the agents have still to read; null: not known here.", default=None)
    agents_ms: int | None = contract_field(
        "When the agents were last seen to read on, by the server's clock; null: not known. Where only changes are "
        "published, nothing else tells a calm plant from a silent one.",
        default=None,
    )
    not_shown: int = contract_field(
        "Assets that are there and not shown: beyond `page.history.assets`, or of a group that the page's settings do "
        "not have. Counted up to `page.history.assets`.",
        default=0,
        ge=0,
    )


class Fleet(Contract):
    """All assets as columns of equal length. The index of an asset holds until a `reset`; new ones are appended.

    Draw them sorted by group and name, so that the place of an asset does not depend on its state.
    """

    seq: int = contract_field("Number of the last change that is in it; streams go on from there.", ge=0)
    now_ms: int = contract_field("The server's clock.", unit="ms")
    feed: Feed = contract_field("Where the data come from.")
    reach: Reach = contract_field("How far back the page can look.")
    states: list[str] = contract_field("Names of states; `state` has indices into it. It only grows.")
    normal: list[bool] = contract_field("Per state, whether it counts as normal.")
    groups: list[GroupInfo] = contract_field("The groups; `group` has indices into it.")
    assets: list[str] = contract_field("Names.")
    group: list[int] = contract_field("Index of the group.")
    state: list[int] = contract_field("Index of the state; -1: none yet.")
    p: list[int] = contract_field("Probability of the most likely class in hundredths; -1: the model was not asked.")
    since: list[int] = contract_field(
        "feed.newest_ms (null counts as 0) minus the end of the window since which the state is the same.",
        unit="ms",
    )
    flags: list[int] = contract_field(
        "Bits: 1 channel missing, 2 sensor implausible, 4 no data, 8 late or clock went back, 16 unsettled."
    )
    alarm: list[int] = contract_field("Highest present alarm: 0 none, 1 low, 2 medium, 3 high; +4 unacknowledged.")
    reason: list[str] = contract_field("Why it is so, in a few words: the abstention, or the strongest evidence.")


class Delta(Contract):
    """Data of the SSE event `d`: the rows that changed. Terse, for ten thousand assets."""

    seq: int = contract_field("Number of this change; also the id of the SSE event.", ge=0)
    now_ms: int = contract_field("The server's clock.", unit="ms")
    newest_ms: int | None = contract_field("Event time of the newest window.", unit="ms")
    states: list[str] | None = contract_field("All names of states, where there is a new one; else null.")
    normal: list[bool] | None = contract_field("Per state, whether it counts as normal; null with `states`.")
    new: list[tuple[int, str, int]] = contract_field("[index, asset, group] per asset that was not known before.")
    rows: list[list[Any]] = contract_field(
        "[index, state, p, since, flags, alarm, reason] per changed asset; `since` is newest_ms − since_ms (newest_ms "
        "null counts as 0). Values at the end that are 0, 0 and empty are left out."
    )


class Heartbeat(Contract):
    """Data of the SSE event `h`, every 5 s, and whenever the link changes. Three missing ones: the page is cut off."""

    seq: int = contract_field("Number of the last change.", ge=0)
    now_ms: int = contract_field("The server's clock.", unit="ms")
    feed: Feed = contract_field("Where the data come from.")
