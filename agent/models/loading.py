"""Bundles from disk to predictors, on the device and with the threads that the settings say."""

from pathlib import Path
from typing import TYPE_CHECKING

from agent.models.compatibility import LoadModel
from agent.settings import Plant

if TYPE_CHECKING:
    from anchormoe import Predictor


def model_loader(settings: Plant) -> LoadModel:
    """Loads each bundle once, however many groups use it."""
    fresh, loaded = fresh_loader(settings), dict[Path, "Predictor"]()

    def load(directory: Path) -> "Predictor":
        if directory not in loaded:
            loaded[directory] = fresh(directory)
        return loaded[directory]

    return load


def fresh_loader(settings: Plant) -> LoadModel:
    """Reads and checks a bundle each time: one that takes over may have been written anew in its place."""

    def load(directory: Path) -> "Predictor":
        from anchormoe import Predictor  # torch is heavy: only a run that needs models pays for it
        from anchormoe.training.devices import resolve_device

        device = resolve_device(settings.inference.device)
        return Predictor.load(directory, device=device, threads=settings.inference.threads)

    return load
