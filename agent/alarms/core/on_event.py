"""What an event does to the alarms of its asset. Pure."""

from dataclasses import replace

from agent.alarms.core.alarm import Alarm, Json, Shelving
from agent.alarms.core.catalogue import Rule, alarm_id
from agent.alarms.core.console import AssetClock
from agent.alarms.core.delays import condition, is_due, probability
from agent.alarms.core.inputs import EventInput
from agent.alarms.core.lifecycle import raise_alarm, return_alarm
from agent.alarms.core.rates import is_chattering, record_raise
from agent.alarms.core.transaction import SYSTEM, Transaction
from connectors.timestamps import format_iso

REFUSED_BUNDLE = "model_refused"
_PER_CHANNEL = ("channel_dropout", "sensor_unhealthy")


def on_event(transaction: Transaction, event: EventInput) -> None:
    asset = transaction.console.assets.get(event.asset) or AssetClock(event.asset, event.group)
    kind = event.type if event.channel is None else f"{event.type}#{event.channel}"
    reason = _ignore_reason(transaction, event)
    if reason is None and asset.has_seen(kind, event.end_ns):
        reason = "repeated_event"
    if reason is not None:
        transaction.result.ignored[reason] += 1
        return
    asset = asset.with_event(kind, event.end_ns, transaction.now_ns)
    transaction.result.assets[event.asset] = asset
    for rule in transaction.catalogue.rules_of(event.group):
        _apply_rule(transaction, rule, event, asset)


def apply_delays(
    transaction: Transaction, rule: Rule, alarm: Alarm, asset_now_ns: int, event: EventInput | None = None
) -> None:
    """Raises the alarm or lets it return, if its condition has lasted for the delay."""
    if not is_due(rule, alarm, asset_now_ns):
        return
    if alarm.holds:
        _raise(transaction, rule, alarm, event)
    else:
        after = return_alarm(alarm, transaction.now_ns, latching=rule.latched)
        transaction.change(alarm, after, "returned", why="the condition is over", event=event)


def _ignore_reason(transaction: Transaction, event: EventInput) -> str | None:
    """The counter's label for an event that must not count; None for one that does."""
    age_ns, known = transaction.now_ns - event.end_ns, transaction.console.assets
    if not transaction.catalogue.has_asset(event.group, event.asset):
        return "unknown_asset"
    if event.asset not in known and len(known) >= transaction.limits.max_assets:
        return "too_many_assets"
    if age_ns > transaction.limits.max_event_age_ns:
        return "expired_event"
    return "event_from_the_future" if -age_ns > transaction.limits.max_event_age_ns else None


def _apply_rule(transaction: Transaction, rule: Rule, event: EventInput, asset: AssetClock) -> None:
    channel = event.channel if rule.technical in _PER_CHANNEL else None
    name = alarm_id(rule.name, event.asset, channel)
    alarm = transaction.find(name)
    holds = condition(rule, event, held=alarm is not None and alarm.holds)
    if alarm is None:
        if not holds:
            return
        if len(transaction.console.alarms) >= transaction.limits.max_alarms:
            transaction.result.ignored["too_many_alarms"] += 1
            return
        alarm = transaction.new_alarm(name, rule, event.asset, channel)
    alarm = transaction.store(_with_condition(rule, alarm, event, holds))
    if event.type == REFUSED_BUNDLE and rule.technical == REFUSED_BUNDLE:
        _raise_for_refused_bundle(transaction, rule, alarm, event)
    else:
        apply_delays(transaction, rule, alarm, asset.end_ns, event)


def _raise_for_refused_bundle(transaction: Transaction, rule: Rule, alarm: Alarm, event: EventInput) -> None:
    """No event says that a refusal is over, so the alarm is raised without a delay and returns by itself."""
    if not alarm.active:
        _raise(transaction, rule, alarm, event)
    transaction.store(replace(transaction.find(alarm.id) or alarm, holds=False, since_ns=event.end_ns))


def _with_condition(rule: Rule, alarm: Alarm, event: EventInput, holds: bool | None) -> Alarm:
    if holds is not None and holds != alarm.holds:
        alarm = replace(alarm, holds=holds, since_ns=event.end_ns)
    elif event.type == "gap" and alarm.holds and not alarm.active:
        alarm = replace(alarm, since_ns=event.end_ns)  # the state during the gap is unknown: restart the on-delay
    if holds and (not alarm.active or _is_stronger(rule, alarm, event)):
        alarm = replace(alarm, strongest=_snapshot(rule, event))
    return alarm


def _raise(transaction: Transaction, rule: Rule, alarm: Alarm, event: EventInput | None) -> None:
    now_ns, limits = transaction.now_ns, transaction.limits
    after = record_raise(raise_alarm(alarm, now_ns, alarm.strongest), now_ns, limits)
    after = transaction.change(alarm, after, "raised", why=rule.rationale.cause, event=event)
    if after.chattering or not is_chattering(after, now_ns, limits):
        return
    why = f"raised {len(after.latest_raises_ns)} times within {limits.chatter_within_ns // 10**9} s"
    chattering = transaction.change(after, replace(after, chattering=True), "chattering", why=why)
    if rule.shelve_chatter_ns is not None and not chattering.hidden:
        shelving = Shelving(SYSTEM, why, now_ns + rule.shelve_chatter_ns)
        transaction.change(chattering, replace(chattering, shelved=shelving, held=False), "shelved", why=why)
        transaction.audit(chattering.id, "shelve", by=SYSTEM, why=why)


def _snapshot(rule: Rule, event: EventInput) -> Json:
    """What the operator is shown as the reason: the event with its evidence and the rule's probability."""
    return {"event": event.id, "end": format_iso(event.end_ns), "probability": probability(rule, event), **event.data}


def _is_stronger(rule: Rule, alarm: Alarm, event: EventInput) -> bool:
    new, known = probability(rule, event), (alarm.strongest or {}).get("probability")
    return new is not None and (known is None or new > known)
