"""Options that several commands share: data, configuration, device."""

import typer

from agent.errors import SettingsError

DATA_HELP = "uea:NAME, synthetic:NAME or recordings:DIR."
DATA_DIR = typer.Option(
    None, "--data-dir", envvar="ANCHORMOE_DATA", help="Directory with NAME/NAME_TRAIN.ts, for uea:NAME."
)
RECORDINGS_CONFIG = typer.Option(None, "--config", help="YAML file with the section `recordings`, for recordings:DIR.")
DATA_SEED = typer.Option(0, "--seed", min=0, help="Seed of a synthetic set.")
DEVICE_HELP = "auto, cpu, cuda or cuda:N."


def find_device(wanted: str) -> str:
    """The device of `--device`, by torch's name for it. Raises SettingsError."""
    from anchormoe.errors import DataError
    from anchormoe.training.devices import resolve_device

    try:
        return resolve_device(wanted)
    except DataError as error:
        raise SettingsError(f"--{error}") from error
