"""A group of like assets and everything that is fixed about watching them: grid, window, rules and model."""

from dataclasses import dataclass

from agent.events import ModelName
from agent.judgement import Judge
from anchormoe.windows import Grid, WindowShape


@dataclass(frozen=True, slots=True)
class Watched:
    """`idle_after` is in steps. The judge carries the model and the rules around it."""

    name: str
    channels: tuple[str, ...]
    grid: Grid
    shape: WindowShape
    idle_after: int
    max_assets: int
    judge: Judge
    model: ModelName
