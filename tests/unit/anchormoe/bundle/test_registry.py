"""Sources on a device: the one that is used is the one that `to` gives back."""

from dataclasses import dataclass

import numpy as np
import torch

from anchormoe.bundle.registry import move_source
from anchormoe.cases import Cases
from anchormoe.experts.fit import fit_committee
from anchormoe.experts.settings import A, CommitteeSettings
from anchormoe.training.task import FitTask
from tests.support.linear_source import LinearSource


@dataclass(frozen=True)
class Movable:
    """A source that stays where it is; a copy moves."""

    device: str = "cpu"

    def to(self, device: str) -> "Movable":
        return Movable(device)


def test_the_moved_copy_is_used() -> None:
    assert move_source(Movable(), "cuda").device == "cuda"  # type: ignore[arg-type, attr-defined]


def test_a_source_that_computes_nowhere_else_stays() -> None:
    source = LinearSource(np.array([[-1.0, 1.0]]), np.zeros(2))
    assert move_source(source, "cuda") is source


def test_experts_move_with_all_their_weights() -> None:
    cases = Cases.from_arrays(np.random.default_rng(0).normal(size=(6, 1, 12)))
    settings = CommitteeSettings(variants=(A,), folds=2, width=8, min_steps=1, max_steps=1)
    committee = fit_committee(FitTask(cases, np.arange(6) % 2, 2), settings).source
    moved = move_source(committee, "meta")  # a device that is always there and holds nothing
    weights = moved._serving._net.state_dict().values()  # type: ignore[attr-defined]
    assert {weight.device for weight in weights} == {torch.device("meta")}
