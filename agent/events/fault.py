"""A fault of ours: what raised where nothing may raise. Pure."""

from dataclasses import dataclass
from typing import Literal

Stage = Literal["decode", "ingest", "classify", "events", "publish", "announce"]


@dataclass(frozen=True, slots=True)
class Fault:
    """`offset` is that of the record concerned; negative where there is none."""

    stage: Stage
    error: Exception
    offset: int = -1
