"""What an event does to the alarms of its asset. Pure."""

from dataclasses import replace

from agent.alarms.core.alarm import Alarm, Json, Shelving
from agent.alarms.core.catalogue import Rule, alarm_id
from agent.alarms.core.chatter import chatters, with_raise
from agent.alarms.core.console import AssetMemory
from agent.alarms.core.delays import condition, due, probability
from agent.alarms.core.inputs import EventInput
from agent.alarms.core.lifecycle import raised, returned
from agent.alarms.core.transaction import SYSTEM, Transaction
from connectors.timestamps import format_iso

REFUSED_BUNDLE = "model_refused"


def on_event(bench: Transaction, event: EventInput) -> None:
    wrong = _wrong(bench, event)
    asset = bench.console.assets.get(event.asset) or AssetMemory(event.asset, event.group)
    kind = event.type if event.channel is None else f"{event.type}#{event.channel}"
    if wrong is None and asset.knows(kind, event.end_ns):
        wrong = "repeated_event"
    if wrong is not None:
        bench.out.ignored[wrong] += 1
        return
    asset = asset.heard(kind, event.end_ns, bench.now_ns)
    bench.out.assets[event.asset] = asset
    for rule in bench.catalogue.rules_of(event.group):
        _judge(bench, rule, event, asset)


def settle(bench: Transaction, rule: Rule, alarm: Alarm, asset_now_ns: int, event: EventInput | None = None) -> None:
    """Raise or end the alarm if its condition has lasted long enough."""
    if not due(rule, alarm, asset_now_ns):
        return
    if alarm.holds:
        _raise(bench, rule, alarm, event)
    else:
        after = returned(alarm, bench.now_ns, latching=rule.latched)
        bench.change(alarm, after, "returned", why="the condition is over", event=event)


def _wrong(bench: Transaction, event: EventInput) -> str | None:
    """Why the event must not count, in one word for counting."""
    age_ns = bench.now_ns - event.end_ns
    if not bench.catalogue.knows(event.group, event.asset):
        return "unknown_asset"
    if age_ns > bench.limits.max_event_age_ns:
        return "expired_event"
    return "event_from_the_future" if -age_ns > bench.limits.max_event_age_ns else None


def _judge(bench: Transaction, rule: Rule, event: EventInput, asset: AssetMemory) -> None:
    channel = event.channel if rule.technical == "channel_dropout" else None
    name = alarm_id(rule.name, event.asset, channel)
    alarm = bench.find(name)
    holds = condition(rule, event, held=alarm is not None and alarm.holds)
    if alarm is None:
        if not holds:
            return
        alarm = bench.fresh(Alarm(name, rule.name, event.asset, channel))
    alarm = bench.keep(_informed(rule, alarm, event, holds))
    if event.type == REFUSED_BUNDLE and rule.technical == REFUSED_BUNDLE:
        _tell_once(bench, rule, alarm, event)
    else:
        settle(bench, rule, alarm, asset.end_ns, event)


def _tell_once(bench: Transaction, rule: Rule, alarm: Alarm, event: EventInput) -> None:
    """A refused bundle is news, not a condition: nothing will say that it is over, so it returns by itself."""
    if not alarm.active:
        _raise(bench, rule, alarm, event)
    bench.keep(replace(bench.find(alarm.id) or alarm, holds=False, since_ns=event.end_ns))


def _informed(rule: Rule, alarm: Alarm, event: EventInput, holds: bool | None) -> Alarm:
    if holds is not None and holds != alarm.holds:
        alarm = replace(alarm, holds=holds, since_ns=event.end_ns)
    elif event.type == "gap" and alarm.holds and not alarm.active:
        alarm = replace(alarm, since_ns=event.end_ns)  # nobody knows what was in the hole: the delay begins anew
    if holds and (not alarm.active or _is_stronger(rule, alarm, event)):
        alarm = replace(alarm, strongest=_snapshot(rule, event))
    return alarm


def _raise(bench: Transaction, rule: Rule, alarm: Alarm, event: EventInput | None) -> None:
    after = with_raise(raised(alarm, bench.now_ns, alarm.strongest), bench.now_ns, bench.limits)
    after = bench.change(alarm, after, "raised", why=rule.rationale.cause, event=event)
    if after.chattering or not chatters(after, bench.now_ns, bench.limits):
        return
    why = f"raised {len(after.latest_raises_ns)} times within {bench.limits.chatter_within_ns // 10**9} s"
    noisy = bench.change(after, replace(after, chattering=True), "chattering", why=why)
    if rule.shelve_chatter_ns is not None and not noisy.hidden:
        shelving = Shelving(SYSTEM, why, bench.now_ns + rule.shelve_chatter_ns)
        bench.change(noisy, replace(noisy, shelved=shelving, held=False), "shelved", why=why)
        bench.audit(noisy.id, "shelve", by=SYSTEM, why=why)


def _snapshot(rule: Rule, event: EventInput) -> Json:
    """Why, for people: the event with its evidence and the probability that decided."""
    return {"event": event.id, "end": format_iso(event.end_ns), "probability": probability(rule, event), **event.data}


def _is_stronger(rule: Rule, alarm: Alarm, event: EventInput) -> bool:
    chance, known = probability(rule, event), (alarm.strongest or {}).get("probability")
    return chance is not None and (known is None or chance > known)
