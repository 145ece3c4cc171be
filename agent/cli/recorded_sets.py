"""The recordings of `benchmark stability`: simulated plants, and directories of recordings with a configuration."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anchormoe.benchmark.runner import LoadSplit
    from anchormoe.data.dataset import Split

PLANTS: dict[str, tuple[int, int | None]] = {
    "pump": (12, 3072), "gearbox": (12, 3072), "patient": (12, 3072), "process": (16, None),
}  # fmt: skip
"""Simulated plants with the number of recordings and their samples: enough for every state to be in TRAIN."""
OVERLAP = 7 / 8
SIMULATED = Path("out/recordings/stability")
CONFIGS = Path("configs")


def recorded_sets(data_dir: Path | None) -> tuple[str, ...]:
    """The simulated plants, and every NAME with configs/recordings-NAME.yaml that DATA_DIR holds."""
    named = [path.stem.removeprefix("recordings-") for path in sorted(CONFIGS.glob("recordings-*.yaml"))]
    return (*PLANTS, *[name for name in named if data_dir is not None and (data_dir / name).is_dir()])


def recording_loader(data_dir: Path | None) -> "LoadSplit":
    """TRAIN as configured; TEST is cut from other recordings with windows that overlap by seven eighths."""

    @lru_cache(maxsize=1)
    def load(name: str) -> "Split":
        from anchormoe.data.dataset import Split
        from anchormoe.data.recordings import load_recordings

        directory, config = _place(name, data_dir)
        train = load_recordings(directory, config=config).train
        return Split(train, load_recordings(directory, config=config, overlap=OVERLAP).test)

    return lambda name, seed: load(name)


def _place(name: str, data_dir: Path | None) -> tuple[Path, Path]:
    """The directory of a set's recordings and their configuration. Raises DataError."""
    from anchormoe.errors import DataError

    if name in PLANTS:
        directory = SIMULATED / name
        _simulate(name, directory)
        return directory, CONFIGS / "training" / f"{name}.yaml"
    if data_dir is None or not (data_dir / name).is_dir():
        raise DataError("recordings not found; give the directory above them with --data-dir")
    return data_dir / name, CONFIGS / f"recordings-{name}.yaml"


def _simulate(name: str, directory: Path) -> None:
    """Writes the recordings that are not there yet; an interrupted command may have left some."""
    from connectors.simulator.recordings import simulated_recording

    count, samples = PLANTS[name]
    directory.mkdir(parents=True, exist_ok=True)
    if len(list(directory.glob("*.csv"))) == count:
        return
    for seed in range(count):
        made = simulated_recording(name, seed, samples)
        (directory / f"{made.name}.csv").write_text(made.to_csv(), encoding="utf-8")
