"""The paper's neural baselines as benchmark methods: the same data handling and the same schedule for all."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from anchormoe.benchmark.methods import Effort, Method, MethodResult, register_method
from anchormoe.benchmark.networks.schedule import CHEAP, LINEAR, SHORTER, USUAL, Schedule
from anchormoe.benchmark.recipe_digest import digest_files
from anchormoe.data.dataset import Dataset

if TYPE_CHECKING:
    from torch import Tensor, nn

    from anchormoe.benchmark.networks.layers import SeriesShape

Build = Callable[["SeriesShape", "Tensor"], "nn.Module"]
"""From the shape and the scaled TRAIN series (N, T, C), for networks that read their periods from it."""

_FOLDER = Path(__file__).parent / "networks"
_SHARED = ("layers.py", "series.py", "training.py")
"""What every network is built and trained with; `schedule.py` is named by its numbers, per set."""


@dataclass(frozen=True, slots=True)
class NetworkMethod:
    """One network: its file in `networks`, how it is built and how long it is trained."""

    file: str
    build: Build
    schedule: Schedule = USUAL
    pretrained: bool = False

    def run(self, train: Dataset, test: Dataset, seed: int, effort: Effort) -> MethodResult:
        import torch

        from anchormoe.benchmark.networks.layers import SeriesShape
        from anchormoe.benchmark.networks.series import scale_series
        from anchormoe.benchmark.networks.training import predict_classes, pretrain_network, train_network

        torch.set_num_threads(effort.n_jobs)
        torch.manual_seed(seed)
        started, computed = time.perf_counter(), time.process_time()
        of_train, of_test = scale_series(train, test)
        cases, steps, channels = of_train.x.shape
        net = self.build(SeriesShape(steps, channels, len(train.classes)), of_train.x)
        if self.pretrained:
            pretrain_network(net, of_train, self.schedule, seed)
        loss = train_network(net, of_train, self.schedule, seed)
        fitted = time.perf_counter()
        facts = {
            "train_loss": loss,
            "epochs": self.schedule.epochs(cases, steps),
            "batch": self.schedule.batch_size(steps),
            "parameters": sum(each.numel() for each in net.parameters()),
            "processor_s": round(time.process_time() - computed, 3),
        }
        probabilities = predict_classes(net, of_test)
        done = time.perf_counter()
        return MethodResult(
            probabilities.argmax(axis=1), fitted - started, done - fitted, probabilities=probabilities, facts=facts
        )

    def version(self, effort: Effort) -> str:
        """Of this network alone: a change to another one does not void its runs."""
        return f"network {digest_files(_FOLDER / name for name in (self.file, *_SHARED))}, torch {version('torch')}"

    def terms(self, train: Dataset) -> str:
        """The schedule on this set: a change to it voids only the runs whose numbers it changes."""
        return self.schedule.describe(len(train), int(train.cases.lengths.max()))


def _dlinear(shape: "SeriesShape", train: "Tensor") -> "nn.Module":
    from anchormoe.benchmark.networks.dlinear import DLinear

    return DLinear(shape)


def _lightts(shape: "SeriesShape", train: "Tensor") -> "nn.Module":
    from anchormoe.benchmark.networks.lightts import LightTS

    return LightTS(shape)


def _timesnet(shape: "SeriesShape", train: "Tensor") -> "nn.Module":
    from anchormoe.benchmark.networks.timesnet import TimesNet

    return TimesNet(shape)


def _patchtst(shape: "SeriesShape", train: "Tensor") -> "nn.Module":
    from anchormoe.benchmark.networks.patchtst import PatchTST

    return PatchTST(shape)


def _fedformer(shape: "SeriesShape", train: "Tensor") -> "nn.Module":
    from anchormoe.benchmark.networks.fedformer import FEDformer

    return FEDformer(shape)


def _micn(shape: "SeriesShape", train: "Tensor") -> "nn.Module":
    from anchormoe.benchmark.networks.micn import MICN

    return MICN(shape)


def _tslanet(shape: "SeriesShape", train: "Tensor") -> "nn.Module":
    from anchormoe.benchmark.networks.tslanet import TSLANet

    return TSLANet(shape)


def _mptsnet(shape: "SeriesShape", train: "Tensor") -> "nn.Module":
    from anchormoe.benchmark.networks.mptsnet import MPTSNet

    return MPTSNet(shape, train)


NETWORKS = {
    "dlinear": ("DLinear", NetworkMethod("dlinear.py", _dlinear, LINEAR)),
    "lightts": ("LightTS", NetworkMethod("lightts.py", _lightts, CHEAP)),
    "patchtst": ("PatchTST", NetworkMethod("patchtst.py", _patchtst)),
    "fedformer": ("FEDformer", NetworkMethod("fedformer.py", _fedformer)),
    "micn": ("MICN", NetworkMethod("micn.py", _micn)),
    "timesnet": ("TimesNet", NetworkMethod("timesnet.py", _timesnet)),
    "tslanet": ("TSLANet", NetworkMethod("tslanet.py", _tslanet, pretrained=True)),
    "mptsnet": ("MPTSNet (reduced width)", NetworkMethod("mptsnet.py", _mptsnet, SHORTER)),
}

for _name, (_label, _method) in NETWORKS.items():
    register_method(Method(_name, _label, _method.run, _method.version, terms=_method.terms))
