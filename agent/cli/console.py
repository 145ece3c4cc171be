"""The console of commands that print tables: names are text, not markup, and a pipe has a width, too."""

from rich.console import Console

PIPE_WIDTH = 120


def text_console(pipe_width: int = PIPE_WIDTH) -> Console:
    """`AI_03 [mA]` is printed as it is, and so is `:pump:`. Lines are not wrapped, cells of tables are."""
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = pipe_width
    return console
