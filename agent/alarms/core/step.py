"""The state machine of a console: `(console, input) → outcome`. Time comes in with the input. Pure."""

from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.console import Console, Outcome
from agent.alarms.core.inputs import Command, EventInput, Input, Tick
from agent.alarms.core.on_command import carry_out
from agent.alarms.core.on_event import hear
from agent.alarms.core.on_tick import pass_time
from agent.alarms.core.transaction import Bench


def step(console: Console, catalogue: Catalogue, entry: Input) -> Outcome:
    """What the input changes; `console` stays as it is until the outcome is applied.

    1. The log's clock. 2. The input, with whom its changes hide or show. 3. The end of a flood and what one holds.
    """
    bench = Bench(console, catalogue, entry)
    match entry:
        case EventInput():
            hear(bench, entry)
        case Command():
            carry_out(bench, entry)
        case Tick():
            pass_time(bench)
    bench.end_flood()
    bench.list_flood()
    return bench.out
