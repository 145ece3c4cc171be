"""What a person's command does. Everything is in the audit, what was refused too. Pure."""

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.catalogue import parts_of
from agent.alarms.core.inputs import Command
from agent.alarms.core.lifecycle import CommandRefused, apply_command
from agent.alarms.core.transaction import Transaction


def on_command(bench: Transaction, command: Command) -> None:
    if command.id in bench.console.commands:
        bench.out.ignored["repeated_command"] += 1
        return
    bench.out.commands[command.id] = bench.now_ns
    try:
        alarm = _meant(bench, command)
        obeyed = apply_command(alarm, command, bench.now_ns, bench.limits)
    except CommandRefused as refused:
        bench.audit(command.alarm, command.verb, by=command.by, why=command.why, refused=str(refused))
        return
    bench.keep(obeyed.alarm)
    if obeyed.change is not None:
        bench.change(alarm, obeyed.alarm, obeyed.change, by=command.by, why=command.why)
    bench.audit(command.alarm, command.verb, by=command.by, why=command.why)


def _meant(bench: Transaction, command: Command) -> Alarm:
    """One that never was raised can be shelved or taken out of service too. Raises Refused."""
    found = bench.find(command.alarm)
    if found is not None:
        return found
    name, asset, channel = parts_of(command.alarm)
    rule = bench.catalogue.rules.get(name)
    if rule is None:
        raise CommandRefused(f"there is no alarm {command.alarm}")
    if not asset or not rule.covers(asset) or bench.catalogue.console_of(asset) != bench.console.name:
        raise CommandRefused(f"there is no asset {asset or '?'} for {name} on this console")
    return bench.fresh(Alarm(command.alarm, name, asset, channel))
