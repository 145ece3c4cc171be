"""Events as they were published, the asset they are about, and the time between them. Pure."""

from typing import Any

from agent.contracts.base import Contract, contract_field
from agent.page.api.fleet import Feed, GroupInfo, Reach
from agent.page.api.signals import Signals


class EventHead(Contract):
    """An event in a list; the SSE event `e` has one, too."""

    id: str = contract_field("Its id.")
    time_ms: int = contract_field("Event time.", unit="ms")
    asset: str = contract_field("The asset.")
    group: str = contract_field("Its group.")
    type: str = contract_field("The kind of event, as published.")
    state: str | None = contract_field("The state; null for technical events.")
    previous: str | None = contract_field("The state before.")
    p: float | None = contract_field("Probability of the most likely class.", unit="1")
    text: str = contract_field("One sentence.")
    version: int = contract_field("Main version of the contract by which it was published; 0: not known.")


class Events(Contract):
    """A part of the history, newest first."""

    events: list[EventHead] = contract_field("The events.")
    more: bool = contract_field("Whether there are older ones that match.")
    reach: Reach = contract_field("How far back the page can look.")


class Sum(Contract):
    """The published numbers, added by the server as decimals; the page adds them, too, and must get the same."""

    total: float = contract_field("context + spans + remainder.", unit="logit")
    published: float = contract_field("The published score.", unit="logit")
    difference: float = contract_field("total − published, exactly; 0 where it adds up.", unit="logit")
    exact: bool = contract_field("Whether the difference is 0 at the printed digits.")


class EventDetail(Contract):
    """An event as it was published, and what the page adds to it."""

    head: EventHead = contract_field("As in a list.")
    data: dict[str, Any] = contract_field("As published: docs/contracts/event.schema.json, or an older version of it.")
    sum: Sum | None = contract_field("The sum of the score; null without evidence.")
    why_not_sum: Sum | None = contract_field("The sum of the margin; null without `why_not`.")
    readable: bool = contract_field("Whether `data` fits the contract; if not, show it raw.")
    problem: str = contract_field("Why it is not readable; else empty.")
    signals: Signals | None = contract_field("Its window, where the page still has it; see also /api/rebuild.")
    previous: str | None = contract_field("Id of the asset's state before; null where the page does not have it.")
    next: str | None = contract_field("Id of the asset's next state; null without any.")


class AssetDetail(Contract):
    """An asset now."""

    asset: str = contract_field("The asset.")
    group: GroupInfo = contract_field("Its group.")
    now_ms: int = contract_field("The server's clock.", unit="ms")
    feed: Feed = contract_field("Where the data come from.")
    index: int = contract_field("Its row in the fleet.", ge=0)
    state: str | None = contract_field("Its state; null: none yet.")
    normal: bool = contract_field("Whether the state counts as normal.")
    p: float | None = contract_field("Probability of the most likely class.", unit="1")
    since_ms: int | None = contract_field("Since when.", unit="ms")
    end_ms: int | None = contract_field("End of its last window.", unit="ms")
    abstention: str | None = contract_field("Why it is `unknown`.")
    missing_channels: list[str] = contract_field("Channels that are missing.")
    last: EventDetail | None = contract_field("Its last published state; null where the page does not have it.")
    signals: Signals | None = contract_field("Its last samples; null where the feed has none.")
    no_signals: str = contract_field("Why there are no samples; else empty.")


class Run(Contract):
    """A run of one state; of several short ones where they are `mixed`."""

    start_ms: int = contract_field("Begin.", unit="ms")
    end_ms: int = contract_field("End.", unit="ms")
    state: str = contract_field("The state; of mixed runs the one that lasted longest.")
    mixed: int = contract_field("How many runs were merged; 1: none.", ge=1)


class Timeline(Contract):
    """The states of an asset over time, at most two runs per pixel."""

    asset: str = contract_field("The asset.")
    start_ms: int = contract_field("Begin.", unit="ms")
    end_ms: int = contract_field("End.", unit="ms")
    runs: list[Run] = contract_field("In order of time; between two there may be a gap.")
    marks: list[EventHead] = contract_field("Technical events in it, at most 200.")


class PeriodRow(Contract):
    """What was odd with an asset in a period."""

    asset: str = contract_field("The asset.")
    group: str = contract_field("Its group.")
    abnormal_ms: int = contract_field("Time in states that are not normal and not unknown.", unit="ms")
    unknown_ms: int = contract_field("Time in which it was unknown.", unit="ms")
    changes: int = contract_field("Changes of state.", ge=0)
    technical: int = contract_field("Technical events.", ge=0)


class Period(Contract):
    """Assets ranked by what was odd in a period, at most 200."""

    start_ms: int = contract_field("Begin.", unit="ms")
    end_ms: int = contract_field("End.", unit="ms")
    changes: list[int] = contract_field("Changes of state per 1/120 of the period.")
    rows: list[PeriodRow] = contract_field("Worst first.")


class Trend(Contract):
    """How much has changed lately, by event time: for the strip below the fleet and the arrows beside its counts."""

    end_ms: int | None = contract_field("End of the last minute; null without data.", unit="ms")
    per_minute: list[int] = contract_field("Changes of state per minute, oldest first, at most a day.")
    hour_ago: dict[str, int] | None = contract_field("Assets per state an hour ago; null: not known yet.")
