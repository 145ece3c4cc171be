"""Trains a network on a stated schedule: no look at TEST, no choice of epochs; the last weights count."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anchormoe.benchmark.networks.schedule import Schedule
from anchormoe.benchmark.networks.series import Series

CLIP = 4.0
LEARNING_RATE = 1e-3


def train_network(net: nn.Module, train: Series, schedule: Schedule, seed: int) -> float:
    """RAdam, cosine to zero, gradients clipped at 4. Gives the mean TRAIN loss of the last epoch."""
    order = np.random.default_rng(seed)
    cases, steps = train.x.shape[:2]
    batch, epochs = schedule.batch_size(steps), schedule.epochs(cases, steps)
    optimizer = torch.optim.RAdam(net.parameters(), lr=LEARNING_RATE)
    updates = epochs * -(-cases // batch)
    cooling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    net.train()
    loss_of_epoch = float("nan")
    for _ in range(epochs):
        losses = []
        for chosen in _batches(order, cases, batch):
            loss = F.cross_entropy(net(train.x[chosen], train.valid[chosen]), train.y[chosen])
            _step(net, optimizer, loss)
            cooling.step()
            losses.append((float(loss.detach()), len(chosen)))
        loss_of_epoch = sum(loss * n for loss, n in losses) / sum(n for _, n in losses)
    return loss_of_epoch


def pretrain_network(net: nn.Module, train: Series, schedule: Schedule, seed: int) -> None:
    """Half the epochs on the network's own `reconstruction_loss`, before `train_network`."""
    order = np.random.default_rng(seed)
    optimizer = torch.optim.RAdam(net.parameters(), lr=LEARNING_RATE)
    cases, steps = train.x.shape[:2]
    net.train()
    for _ in range(max(1, schedule.epochs(cases, steps) // 2)):
        for chosen in _batches(order, cases, schedule.batch_size(steps)):
            _step(net, optimizer, net.reconstruction_loss(train.x[chosen]))  # type: ignore[operator]


def predict_classes(net: nn.Module, series: Series, batch: int = 64) -> npt.NDArray[np.float64]:
    """Softmax of the logits (N, Y)."""
    net.eval()
    with torch.no_grad():
        parts = [
            torch.softmax(net(series.x[at : at + batch], series.valid[at : at + batch]).double(), dim=1)
            for at in range(0, len(series.x), batch)
        ]
    return torch.cat(parts).numpy()


def _batches(order: np.random.Generator, cases: int, size: int) -> list[Tensor]:
    shuffled = torch.from_numpy(order.permutation(cases))
    parts = list(torch.split(shuffled, size))
    if len(parts) > 1 and len(parts[-1]) == 1:  # batch normalisation refuses a single case
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


def _step(net: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), CLIP)
    optimizer.step()
