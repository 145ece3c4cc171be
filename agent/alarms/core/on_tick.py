"""What the passing of time does to the alarms of a console. Pure."""

from dataclasses import replace

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.catalogue import Rule, alarm_id
from agent.alarms.core.console import AssetClock
from agent.alarms.core.lifecycle import is_shelving_over, unshelve
from agent.alarms.core.on_event import REFUSED_BUNDLE, apply_delays
from agent.alarms.core.rates import is_chattering
from agent.alarms.core.transaction import SYSTEM, Transaction
from connectors.timestamps import format_iso


def on_tick(transaction: Transaction) -> None:
    for alarm in transaction.alarms_where(_depends_on_time):
        alarm = _end_chatter(transaction, _end_shelving(transaction, alarm))
        _remind(transaction, alarm)
        _apply_delays_without_event(transaction, transaction.find(alarm.id) or alarm)
    _raise_no_data(transaction)
    oldest_ns = transaction.now_ns - transaction.limits.remember_commands_ns
    transaction.result.commands |= {name: None for name, at in transaction.console.commands.items() if at < oldest_ns}


def _depends_on_time(alarm: Alarm) -> bool:
    """Whether time alone can change the alarm."""
    unacknowledged = alarm.active and not alarm.acknowledged
    return alarm.holds != alarm.active or alarm.shelved is not None or alarm.chattering or unacknowledged


def _end_shelving(transaction: Transaction, alarm: Alarm) -> Alarm:
    if alarm.shelved is None or not is_shelving_over(alarm, transaction.now_ns):
        return alarm
    why = f"shelved until {format_iso(alarm.shelved.until_ns)}"
    transaction.audit(alarm.id, "unshelve", by=SYSTEM, why=why)
    return transaction.change(alarm, unshelve(alarm, transaction.now_ns), "shelving_expired", why=why)


def _end_chatter(transaction: Transaction, alarm: Alarm) -> Alarm:
    if not alarm.chattering or is_chattering(alarm, transaction.now_ns, transaction.limits):
        return alarm
    return transaction.change(alarm, replace(alarm, chattering=False), "chatter_over", why="it came no more")


def _remind(transaction: Transaction, alarm: Alarm) -> None:
    rule, now_ns = transaction.catalogue.rules.get(alarm.rule), transaction.now_ns
    every_ns = rule.remind_every_ns if rule else None
    if every_ns is None or alarm.state != "unacknowledged" or now_ns - (alarm.reminded_ns or 0) < every_ns:
        return
    transaction.change(alarm, replace(alarm, reminded_ns=now_ns), "reminded", why="not acknowledged yet")


def _apply_delays_without_event(transaction: Transaction, alarm: Alarm) -> None:
    """The condition stays as of the last event, and its delay runs on with the log's clock."""
    rule, asset = transaction.catalogue.rules.get(alarm.rule), transaction.console.assets.get(alarm.asset)
    if rule is not None and asset is not None:
        apply_delays(transaction, rule, alarm, asset.now_ns(transaction.now_ns))


def _raise_no_data(transaction: Transaction) -> None:
    """No event for longer than the rule's limit counts as no data, even if the agent published no such event."""
    for rule in transaction.catalogue.rules.values():
        if rule.technical != "no_data" or rule.limit_ns is None:
            continue
        assets = _reporting_assets(transaction, rule)
        silent = [one for one in assets if transaction.now_ns - one.heard_ns > rule.limit_ns]
        for asset in sorted(silent, key=lambda one: one.name):
            _set_no_data(transaction, rule, asset)


def _reporting_assets(transaction: Transaction, rule: Rule) -> list[AssetClock]:
    """Assets of the rule that sent data; a group's own name only ever has events about refused bundles."""
    clocks = transaction.console.assets.values()
    assets = (one for one in clocks if one.group == rule.group and rule.covers(one.name))
    return [one for one in assets if any(kind != REFUSED_BUNDLE for kind, _ in one.ends)]


def _set_no_data(transaction: Transaction, rule: Rule, asset: AssetClock) -> None:
    name = alarm_id(rule.name, asset.name)
    alarm = transaction.find(name) or transaction.new_alarm(name, rule, asset.name)
    if alarm.holds:
        return
    now_ns = asset.now_ns(transaction.now_ns)
    apply_delays(transaction, rule, transaction.store(replace(alarm, holds=True, since_ns=now_ns)), now_ns)
