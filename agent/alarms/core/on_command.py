"""What a person's command does. Every command is in the audit, refused ones too. Pure."""

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.catalogue import split_alarm_id
from agent.alarms.core.inputs import Command
from agent.alarms.core.lifecycle import CommandRefused, apply_command
from agent.alarms.core.transaction import Transaction


def on_command(transaction: Transaction, command: Command) -> None:
    if command.id in transaction.console.commands:
        transaction.result.ignored["repeated_command"] += 1
        return
    try:
        if len(transaction.console.commands) >= transaction.limits.max_commands:
            raise CommandRefused("too many commands within a day; try again later")
        transaction.result.commands[command.id] = transaction.now_ns
        alarm = _find_alarm(transaction, command)
        applied = apply_command(alarm, command, transaction.now_ns, transaction.limits)
    except CommandRefused as refused:
        transaction.audit(command.alarm, command.verb, by=command.by, why=command.why, refused=str(refused))
        return
    transaction.store(applied.alarm)
    if applied.change is not None:
        transaction.change(alarm, applied.alarm, applied.change, by=command.by, why=command.why)
    transaction.audit(command.alarm, command.verb, by=command.by, why=command.why)


def _find_alarm(transaction: Transaction, command: Command) -> Alarm:
    """An alarm that was never raised can be shelved or taken out of service as well. Raises CommandRefused."""
    found = transaction.find(command.alarm)
    if found is not None:
        return found
    name, asset, channel = split_alarm_id(command.alarm)
    rule = transaction.catalogue.rules.get(name)
    if rule is None:
        raise CommandRefused(f"there is no alarm {command.alarm}")
    if not asset or not rule.covers(asset) or transaction.catalogue.console_of(asset) != transaction.console.name:
        raise CommandRefused(f"there is no asset {asset or '?'} for {name} on this console")
    if len(transaction.console.alarms) >= transaction.limits.max_alarms:
        raise CommandRefused("this console has too many alarms already")
    return transaction.new_alarm(command.alarm, rule, asset, channel)
