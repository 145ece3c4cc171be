from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed as dist
from torch import multiprocessing

from anchormoe.losses import LossWeights, objective
from anchormoe.paper_config import ModelConfig
from anchormoe.paper_net import PaperNet
from anchormoe.training import Examples, Plan, train

CONFIG = ModelConfig(channels=2, classes=3, patch_length=4, patch_stride=2, width=16, experts=4, dropout=0.0)


def trained_net() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    net = PaperNet(CONFIG)
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(11, 2, 12)).astype(np.float32))  # the last batch has an odd size
    y = torch.from_numpy(rng.integers(0, 3, 11))
    examples = Examples(x, torch.ones_like(x, dtype=torch.bool), y, torch.linspace(0.5, 1.5, 11))
    plan = Plan(epochs=3, batch_size=4, learning_rate=0.01, weight_decay=0.01, seed=0)
    train(
        net, examples, plan, loss=lambda m, batch, _: objective(m(batch.x, batch.mask), batch.y, LossWeights(0.1, 0.1))
    )
    return net.state_dict()


def one_process(rank: int, directory: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{directory}/meeting", rank=rank, world_size=2)
    torch.save(trained_net(), f"{directory}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_agree_bitwise_with_each_other_and_closely_with_one(tmp_path: Path):
    multiprocessing.start_processes(one_process, args=(str(tmp_path),), nprocs=2, start_method="fork")
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    alone = trained_net()
    for name, value in alone.items():
        assert torch.equal(first[name], second[name]), name
        torch.testing.assert_close(first[name], value, atol=2e-4, rtol=1e-3, msg=name)
