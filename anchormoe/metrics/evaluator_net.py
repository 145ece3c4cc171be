"""The evaluator of I(20): a small convolutional net, the same for every ranking, trained on what a ranking kept."""

import numpy as np
import torch
from torch import Tensor, nn

from anchormoe.cases import Float32, Int64

WIDTH, KERNEL = 48, 7
BATCH = 32
UPDATES = 300
LEARNING_RATE = 3e-3
LONGEST = 128
"""Longer series are read with a stride in the first layer, so that no set takes hours."""


def train_and_predict(train: Float32, y: Int64, test: Float32, *, classes: int, seed: int) -> Int64:
    """Trains from scratch on `train` (N, C, T) for a fixed number of updates and predicts `test`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = _net(train.shape[1], classes, stride=max(1, train.shape[2] // LONGEST))
        _fit(net, torch.from_numpy(train), torch.from_numpy(y))
    net.eval()
    with torch.no_grad():
        parts = [net(part).argmax(dim=1) for part in torch.split(torch.from_numpy(test), BATCH)]
    return np.asarray(torch.cat(parts).numpy(), np.int64)


def _net(channels: int, classes: int, *, stride: int) -> nn.Sequential:
    return nn.Sequential(
        *_block(channels, stride=stride),
        *_block(WIDTH),
        *_block(WIDTH),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(WIDTH, classes),
    )


def _block(channels: int, *, stride: int = 1) -> tuple[nn.Module, ...]:
    convolution = nn.Conv1d(channels, WIDTH, KERNEL + stride - 1, stride=stride, padding=(KERNEL + stride - 1) // 2)
    return convolution, nn.BatchNorm1d(WIDTH), nn.ReLU()


def _fit(net: nn.Sequential, x: Tensor, y: Tensor) -> None:
    optimizer = torch.optim.AdamW(net.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, UPDATES)
    net.train()
    for at in _batches(len(x)):
        loss = nn.functional.cross_entropy(net(x[at]), y[at])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def _batches(count: int) -> list[Tensor]:
    """UPDATES batches; every case is seen once before any is seen again."""
    size = min(BATCH, count)
    rounds = -(-UPDATES * size // count)
    order = torch.cat([torch.randperm(count) for _ in range(rounds)])
    return list(torch.split(order[: UPDATES * size], size))
