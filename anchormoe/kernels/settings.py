"""Settings of kernel evidence, and the sizes that follow from them. Pure."""

from dataclasses import dataclass

from anchormoe.cases import Alignment
from anchormoe.conversion import require_valid_fields
from anchormoe.training.task import Objective, Profile

NEAR = 33
"""Steps that a kernel may span with the objective `localize`."""


def long_reach(longest: int) -> int:
    """Kernels that span more steps than this read a large part of the longest case: their shapes are long."""
    return max(NEAR, longest // 4)


@dataclass(frozen=True, slots=True)
class KernelSettings:
    """`aligned`: events have a fixed place in the case; `sliding`: they may start anywhere."""

    profile: Profile = "balanced"
    objective: Objective = "accuracy"
    alignment: Alignment = "aligned"

    def __post_init__(self) -> None:
        require_valid_fields(self)

    @property
    def sizes(self) -> "Sizes":
        return _SIZES[self.profile]

    @property
    def max_receptive_field(self) -> int | None:
        """In steps; None: as long as the cases."""
        return NEAR if self.objective == "localize" else None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Features of the blocks K, D and of each segment of K2 and K4, Hydra groups per dilation; 0 leaves a block out.

    `dilations` limits those of K; D has half of them, K2 and K4 a third: more cost time and add little accuracy.
    """

    ppv: int
    differences: int
    segmented: int
    hydra_groups: int
    dilations: int
    primal_features: int
    selection_cases: int


_SIZES: dict[str, Sizes] = {
    "fast": Sizes(1008, 0, 0, 0, dilations=3, primal_features=2016, selection_cases=1000),
    "balanced": Sizes(4032, 2016, 504, 16, dilations=6, primal_features=4000, selection_cases=1000),
    "accurate": Sizes(9996, 4200, 2016, 64, dilations=32, primal_features=10000, selection_cases=2000),
}
