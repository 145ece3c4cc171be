"""Sizes and training of a committee of experts, by profile and objective. Pure."""

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta

from anchormoe.cases import Alignment
from anchormoe.conversion import Amount, Count, Share
from anchormoe.training.task import Objective, Profile


@dataclass(frozen=True, slots=True)
class Variant:
    """A kind of members.

    `position`: tokens have a position code. `absence`: spans are missing in training. `centre`: the gates see
    deviations from the median of each channel, not its values. Evidence of tokens is always made of the deviations, and
    the level of a channel is evidence of the whole window, so that it does not appear in each token.
    """

    position: bool
    absence: bool
    centre: bool = True


A = Variant(position=True, absence=True)
B = Variant(position=False, absence=False)
A_AS_IS = replace(A, centre=False)
B_AS_IS = replace(B, centre=False)


@dataclass(frozen=True, slots=True)
class CommitteeSettings:
    """One member per variant and fold; `noise` in standard deviations of TRAIN, `shift` as a share of a series."""

    variants: tuple[Variant, ...] = (A, A_AS_IS)
    kept: Count = 1
    """variants used in serving: those that are best out of fold"""
    folds: Annotated[int, Meta(ge=2)] = 3
    """with one, members would be validated on the cases they were trained on"""
    width: Count = 48
    """of a token, which reads all channels and decides on the gates"""
    value_width: Count = 48
    """of what is read of a single channel"""
    experts: Count = 4
    chosen: Count = 2
    """experts per token"""
    channels: Count = 32
    """most channels that a member reads; of more, those that tell the classes apart best on its part of TRAIN"""
    tokens: Count = 160
    """approximate number per series, over all channels, which sets the stride"""
    sparsity: Amount = 0.02
    """λ of the sum over tokens of the norms of their contributions"""
    noise: Amount = 0.3
    shift: Amount = 0.03
    absence: Share = 0.4
    """probability that a span of a case is missing, in all or some of its channels"""
    epochs: Count = 50
    batch: Count = 64
    min_steps: Count = 300
    max_steps: Count = 1500
    learning_rate: Amount = 3e-3
    weight_decay: Amount = 0.01
    orthogonality: Amount = 0.0
    """λ of the paper's L_orth on the posterior anchors"""
    alignment: Amount = 0.0
    """λ of the paper's reliability alignment L_ra"""
    admission: bool = False
    """the paper's π instead of a plain gated sum"""
    spectral: bool = False
    """the paper's spectral view: log band energies of what a token reads"""
    bounded: bool = True
    """what is read of a channel goes through tanh: a large event that no class has cannot add much"""

    def per_member(self, switch: str) -> tuple[bool, ...]:
        """One switch of the variants for every member in training; the folds of the first variant come first."""
        return tuple(getattr(variant, switch) for variant in self.variants for _ in range(self.folds))


_PROFILES = MappingProxyType(
    {
        "fast": CommitteeSettings(width=32, value_width=24, tokens=64, epochs=40),
        "balanced": CommitteeSettings(),
        "accurate": CommitteeSettings(variants=(A, A_AS_IS, B, B_AS_IS), kept=2),
    }
)


def settings_for(
    profile: Profile = "balanced", objective: Objective = "accuracy", alignment: Alignment = "aligned"
) -> CommitteeSettings:
    """`localize`: both kinds of members and more sparsity; `sliding` (windows cut anywhere): no position code."""
    settings = _PROFILES[profile]
    if objective == "localize":
        settings = replace(settings, variants=(A, B), kept=2, sparsity=0.05)
    if alignment == "sliding":
        settings = replace(settings, variants=tuple(replace(v, position=False) for v in settings.variants))
    return settings
