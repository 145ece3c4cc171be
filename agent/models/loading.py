"""Loads bundles on the device and with the number of threads that the settings name."""

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
    """Reads and checks the bundle at every call: an activated one may have been written to the same path again."""

    def load(directory: Path) -> "Predictor":
        from anchormoe import Predictor  # torch is slow to import; not every command needs it
        from anchormoe.training.devices import resolve_device

        device = resolve_device(settings.inference.device)
        return Predictor.load(directory, device=device, threads=settings.inference.threads)

    return load
