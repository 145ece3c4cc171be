"""What the passing of time does to the alarms of a console. Pure."""

from dataclasses import replace

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.catalogue import Rule, alarm_id
from agent.alarms.core.chatter import chatters
from agent.alarms.core.console import AssetMemory
from agent.alarms.core.lifecycle import expired, unshelved
from agent.alarms.core.on_event import REFUSED_BUNDLE, settle
from agent.alarms.core.transaction import SYSTEM, Transaction
from connectors.timestamps import format_iso


def on_tick(bench: Transaction) -> None:
    for alarm in bench.alarms_where(_waits):
        alarm = _calmed(bench, _expired(bench, alarm))
        _remind(bench, alarm)
        _settle_in_silence(bench, bench.find(alarm.id) or alarm)
    _notice_silence(bench)
    horizon = bench.now_ns - bench.limits.remember_commands_ns
    bench.out.commands |= {name: None for name, at in bench.console.commands.items() if at < horizon}


def _waits(alarm: Alarm) -> bool:
    """Whether time alone can change it."""
    unseen = alarm.active and not alarm.acknowledged
    return alarm.holds != alarm.active or alarm.shelved is not None or alarm.chattering or unseen


def _expired(bench: Transaction, alarm: Alarm) -> Alarm:
    if alarm.shelved is None or not expired(alarm, bench.now_ns):
        return alarm
    why = f"shelved until {format_iso(alarm.shelved.until_ns)}"
    bench.audit(alarm.id, "unshelve", by=SYSTEM, why=why)
    return bench.change(alarm, unshelved(alarm, bench.now_ns), "shelving_expired", why=why)


def _calmed(bench: Transaction, alarm: Alarm) -> Alarm:
    if not alarm.chattering or chatters(alarm, bench.now_ns, bench.limits):
        return alarm
    return bench.change(alarm, replace(alarm, chattering=False), "chatter_over", why="it came no more")


def _remind(bench: Transaction, alarm: Alarm) -> None:
    rule = bench.catalogue.rules.get(alarm.rule)
    every = rule.remind_every_ns if rule else None
    if every is None or alarm.state != "unacknowledged" or bench.now_ns - (alarm.reminded_ns or 0) < every:
        return
    bench.change(alarm, replace(alarm, reminded_ns=bench.now_ns), "reminded", why="not acknowledged yet")


def _settle_in_silence(bench: Transaction, alarm: Alarm) -> None:
    """The condition is what the last event said, and time goes on without another one."""
    rule, asset = bench.catalogue.rules.get(alarm.rule), bench.console.assets.get(alarm.asset)
    if rule is not None and asset is not None:
        settle(bench, rule, alarm, asset.now_ns(bench.now_ns))


def _notice_silence(bench: Transaction) -> None:
    """No event for longer than the rule's limit is no data, whether or not anybody said so."""
    for rule in bench.catalogue.rules.values():
        if rule.technical != "no_data" or rule.limit_ns is None:
            continue
        silent = [one for one in _sending(bench, rule) if bench.now_ns - one.heard_ns > rule.limit_ns]
        for asset in sorted(silent, key=lambda one: one.name):
            _silent(bench, rule, asset)


def _sending(bench: Transaction, rule: Rule) -> list[AssetMemory]:
    """Assets of the rule; not the group itself, of which nothing but a refused bundle was ever heard."""
    assets = (one for one in bench.console.assets.values() if one.group == rule.group and rule.covers(one.name))
    return [one for one in assets if any(kind != REFUSED_BUNDLE for kind, _ in one.ends)]


def _silent(bench: Transaction, rule: Rule, asset: AssetMemory) -> None:
    name = alarm_id(rule.name, asset.name)
    alarm = bench.find(name) or bench.fresh(Alarm(name, rule.name, asset.name))
    if alarm.holds:
        return
    now_ns = asset.now_ns(bench.now_ns)
    settle(bench, rule, bench.keep(replace(alarm, holds=True, since_ns=now_ns)), now_ns)
