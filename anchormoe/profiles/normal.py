"""What is normal for each channel, by a bundle's TRAIN statistics. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Float64
from anchormoe.model.channel_profile import ChannelProfile
from anchormoe.model.normalizer import Normalizer

NORMAL_NAMES = frozenset({"normal", "healthy", "ok", "good", "stable", "0"})
"""Names of the class that is no fault, in lower case; the same as the agent's, which a test compares."""


@dataclass(frozen=True, slots=True)
class NormalRange:
    """Per channel (C,), raw values: `low` to `high` is usual, `deviation` is that inside a case.

    `label` is the class that they are from; None: all of TRAIN, as no class is called normal.
    """

    label: str | None
    mean: Float64
    low: Float64
    high: Float64
    deviation: Float64

    @classmethod
    def of(cls, profile: ChannelProfile | None, normalizer: Normalizer, classes: Sequence[str]) -> "NormalRange":
        """A bundle without a channel profile has only the scaling of its inputs: then one deviation either way."""
        if profile is None:
            mean, scale = normalizer.mean, normalizer.scale
            return cls(None, mean, mean - 1.645 * scale, mean + 1.645 * scale, scale)
        row = next((at for at, name in enumerate(classes) if name.lower() in NORMAL_NAMES), len(classes))
        rows = np.where(profile.known[row], row, len(classes))  # (C,)
        at = rows, np.arange(len(rows))
        label = classes[row] if row < len(classes) else None
        return cls(label, profile.mean[at], profile.low[at], profile.high[at], profile.deviation[at])
