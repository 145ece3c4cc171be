from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed as dist
from torch.multiprocessing.spawn import start_processes

from anchormoe.cases import Cases
from anchormoe.experts.fit import fit_committee
from anchormoe.experts.settings import A, CommitteeSettings
from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.loop import Examples, LoopConfig, train_network
from anchormoe.paper.losses import LossWeights, objective
from anchormoe.paper.net import PaperNet
from anchormoe.recipes.fitters import FITTERS
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.training import distributed
from anchormoe.training.checkpoints import StageCheckpoint
from anchormoe.training.task import FitTask

CONFIG = ModelConfig(channels=2, classes=3, patch_length=4, patch_stride=2, width=16, experts=4, dropout=0.0)


def trained_net() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    net = PaperNet(CONFIG)
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(11, 2, 12)).astype(np.float32))  # the last batch has an odd size
    y = torch.from_numpy(rng.integers(0, 3, 11))
    examples = Examples(x, torch.ones_like(x, dtype=torch.bool), y, torch.linspace(0.5, 1.5, 11))
    plan = LoopConfig(epochs=3, batch_size=4, learning_rate=0.01, weight_decay=0.01, seed=0)
    train_network(
        net, examples, plan, loss=lambda m, batch, _: objective(m(batch.x, batch.mask), batch.y, LossWeights(0.1, 0.1))
    )
    return net.state_dict()


def trained_experts() -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(0)
    cases, y = Cases.from_arrays(rng.normal(size=(13, 2, 20))), np.arange(13) % 3
    settings = CommitteeSettings(variants=(A,), kept=1, folds=2, width=8, batch=5, min_steps=6, max_steps=6)
    fit = fit_committee(FitTask(cases, y, 3, sample_weight=np.linspace(0.5, 1.5, 13)), settings)
    return {name: torch.from_numpy(np.array(value)) for name, value in fit.source.tensors().items()}


TRAINED = {"paper": trained_net, "experts": trained_experts}


def in_two_processes(function: Callable[..., None], *arguments: str) -> None:
    two = {"nprocs": 2, "start_method": "fork"}
    start_processes(function, args=arguments, **two)


def one_process(rank: int, directory: str, kind: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{directory}/meeting", rank=rank, world_size=2)
    torch.save(TRAINED[kind](), f"{directory}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRAINED)
def test_two_processes_agree_bitwise_with_each_other_and_closely_with_one(tmp_path: Path, kind: str) -> None:
    in_two_processes(one_process, str(tmp_path), kind)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    alone = TRAINED[kind]()
    for name, value in alone.items():
        assert torch.equal(first[name], second[name]), name
        torch.testing.assert_close(first[name], value, atol=2e-4, rtol=1e-3, msg=name)


def fitted_kernel(told: list[str]) -> dict[str, torch.Tensor]:
    rng, y = np.random.default_rng(0), np.arange(64) % 2
    cases = Cases.from_arrays(rng.normal(size=(64, 1, 24)) + 0.7 * (2 * y - 1)[:, None, None])
    training = FitTask(cases, y, 2, progress=lambda progress: told.append(progress.stage))
    fit = FITTERS["kernel"](training, RecipeSettings(recipe="kernel", profile="fast"))
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in fit.source.tensors().items()}
    return tensors | {"oof": torch.from_numpy(fit.oof_logits)}


def kernel_process(rank: int, directory: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{directory}/meeting", rank=rank, world_size=2)
    told: list[str] = []
    torch.save(fitted_kernel(told), f"{directory}/{rank}.pt")
    Path(directory, f"{rank}.txt").write_text(" ".join(told))
    dist.destroy_process_group()


@pytest.mark.slow
def test_only_the_first_process_fits_the_kernels_and_all_have_them(tmp_path: Path) -> None:
    in_two_processes(kernel_process, str(tmp_path))
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    alone = fitted_kernel([])
    assert set(first) == set(second) == set(alone)
    for name, value in alone.items():
        assert torch.equal(first[name], value), name
        assert torch.equal(second[name], value), name
    assert "kernel folds" in (tmp_path / "0.txt").read_text()
    assert (tmp_path / "1.txt").read_text() == ""


def failing_process(rank: int, directory: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{directory}/meeting", rank=rank, world_size=2)

    def fail() -> bytes:
        raise ValueError("no fit")

    try:
        distributed.broadcast_from_rank0(fail, torch.device("cpu"))
    except (ValueError, KeyboardInterrupt) as error:
        Path(directory, f"{rank}.txt").write_text(type(error).__name__)
    dist.destroy_process_group()


@pytest.mark.slow
def test_nobody_waits_for_a_first_process_that_fails(tmp_path: Path) -> None:
    in_two_processes(failing_process, str(tmp_path))
    assert [(tmp_path / f"{rank}.txt").read_text() for rank in (0, 1)] == ["ValueError", "KeyboardInterrupt"]


def test_a_checkpoint_survives_as_bytes() -> None:
    kept = StageCheckpoint(
        {"a/x": torch.arange(6.0).view(2, 3), "empty": torch.zeros(0)}, {"losses": [0.5], "name": "é"}
    )
    again = StageCheckpoint.from_bytes(kept.to_bytes())
    assert dict(again.facts) == {"losses": [0.5], "name": "é"}
    assert {name: value.tolist() for name, value in again.tensors.items()} == {
        "a/x": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]],
        "empty": [],
    }


def stopping_process(rank: int, directory: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{directory}/meeting", rank=rank, world_size=2)
    asked = distributed.any_rank(rank == 1, torch.device("cpu"))
    Path(directory, f"{rank}.txt").write_text(str(asked))
    dist.destroy_process_group()


@pytest.mark.slow
def test_all_processes_stop_when_one_is_asked_to(tmp_path: Path) -> None:
    in_two_processes(stopping_process, str(tmp_path))
    assert [(tmp_path / f"{rank}.txt").read_text() for rank in (0, 1)] == ["True", "True"]
