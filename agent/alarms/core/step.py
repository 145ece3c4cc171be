"""The state machine of a console: `(console, input) → result`. Time comes with the input. Pure."""

from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.console import Console, StepResult
from agent.alarms.core.inputs import Command, EventInput, Input, Tick
from agent.alarms.core.on_command import on_command
from agent.alarms.core.on_event import on_event
from agent.alarms.core.on_tick import on_tick
from agent.alarms.core.transaction import Transaction


def step(console: Console, catalogue: Catalogue, entry: Input) -> StepResult:
    """What the input changes; `console` itself changes only when the result is applied.

    1. Advance the log's clock. 2. Apply the input and the suppression it causes or ends. 3. End a flood that is over
    and update what its summary lists.
    """
    transaction = Transaction(console, catalogue, entry)
    match entry:
        case EventInput():
            on_event(transaction, entry)
        case Command():
            on_command(transaction, entry)
        case Tick():
            on_tick(transaction)
    transaction.end_flood_if_over()
    transaction.update_flood_members()
    return transaction.result
