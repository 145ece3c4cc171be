"""The state machine of a console: `(console, input) → outcome`. Time comes in with the input. Pure."""

from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.console import Console, StepResult
from agent.alarms.core.inputs import Command, EventInput, Input, Tick
from agent.alarms.core.on_command import on_command
from agent.alarms.core.on_event import on_event
from agent.alarms.core.on_tick import on_tick
from agent.alarms.core.transaction import Transaction


def step(console: Console, catalogue: Catalogue, entry: Input) -> StepResult:
    """What the input changes; `console` stays as it is until the outcome is applied.

    1. The log's clock. 2. The input, with whom its changes hide or show. 3. The end of a flood and what one holds.
    """
    bench = Transaction(console, catalogue, entry)
    match entry:
        case EventInput():
            on_event(bench, entry)
        case Command():
            on_command(bench, entry)
        case Tick():
            on_tick(bench)
    bench.end_flood()
    bench.list_flood()
    return bench.out
