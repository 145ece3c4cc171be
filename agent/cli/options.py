"""Options that several commands share: data, configuration, device."""

from pathlib import Path

import typer

from agent.cli.errors import fail
from agent.errors import SettingsError

DATA_HELP = "uea:NAME, synthetic:NAME or recordings:DIR."
DATA_DIR = typer.Option(
    None, "--data-dir", envvar="ANCHORMOE_DATA", help="Directory with NAME/NAME_TRAIN.ts, for uea:NAME."
)
RECORDINGS_CONFIG = typer.Option(None, "--config", help="YAML file with the section `recordings`, for recordings:DIR.")
DATA_SEED = typer.Option(0, "--seed", min=0, help="Seed of a synthetic set.")
DEVICE_HELP = "auto, cpu, cuda or cuda:N."
ALLOW_USELESS = typer.Option(
    False, "--allow-useless", help="Take a model that is near chance or nearly always `unknown`, too."
)


def find_device(wanted: str) -> str:
    """The device of `--device`, by torch's name for it. Raises SettingsError."""
    from anchormoe.errors import DataError
    from anchormoe.training.devices import resolve_device

    try:
        return resolve_device(wanted)
    except DataError as error:
        raise SettingsError(f"--{error}") from error


def refuse_useless(bundle: Path, *, allowed: bool) -> None:
    """Ends the command where training judged the bundle not worth serving; with `allowed` it warns."""
    from anchormoe.bundle.files import MANIFEST, parse_json, read_file
    from anchormoe.bundle.usefulness import useless_reasons

    reasons = useless_reasons(parse_json(read_file(bundle, MANIFEST), MANIFEST))
    for reason in reasons if allowed else ():
        typer.echo(f"warning: not a useful model: {reason}", err=True)
    if reasons and not allowed:
        why = "\n".join(f"- {reason}" for reason in reasons)
        fail(f"{bundle}: the model is not useful:\n{why}\n--allow-useless takes it nevertheless")
