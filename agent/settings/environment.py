"""What a configuration file refers to: environment variables, secret files, paths relative to itself.

The environment comes in as a value; `load` is the only place that is given the real one.
"""

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationInfo, WithJsonSchema

from agent.settings.problems import refusal


@dataclass(frozen=True, slots=True)
class Environment:
    """`look_up=False` leaves secrets and files alone, for a build server that has none of them."""

    base: Path = Path()
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    look_up: bool = True


def read_environment(info: ValidationInfo) -> Environment:
    return info.context if isinstance(info.context, Environment) else Environment(look_up=False)


def with_address(raw: Any, name: str, variable: str, info: ValidationInfo) -> Any:
    """The section with the address from the environment, which wins over the file."""
    address = read_environment(info).environ.get(variable)
    return {**raw, name: address} if address and isinstance(raw, dict) else raw


def _from_environment(variable: str, around: Environment) -> str:
    value = around.environ.get(variable, "")
    if not value:
        raise refusal(f"the environment variable {variable} is not set", "set it, or name another one")
    return value


def _from_file(name: str, around: Environment) -> str:
    try:
        value = (around.base / name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise refusal(f"cannot read {name}: {_reason(error)}", "name a readable text file") from error
    if not value:
        raise refusal(f"{name} is empty", "put the secret into it")
    return value


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or "unreadable") if isinstance(error, OSError) else "not text"


_READERS = {"env": _from_environment, "file": _from_file}


def _referred(value: Any, info: ValidationInfo) -> str:
    """The text behind {env: NAME} or {file: PATH}."""
    kind, name = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else ("", None)
    if kind not in _READERS or not isinstance(name, str) or not name:
        raise refusal("a secret is not written into this file", "write {env: VARIABLE} or {file: PATH}")
    around = read_environment(info)
    return _READERS[kind](name, around) if around.look_up else f"<{kind} {name}>"


def _secret(value: Any, info: ValidationInfo) -> Any:
    return value if value is None or isinstance(value, SecretStr) else SecretStr(_referred(value, info))


def _text(value: Any, info: ValidationInfo) -> Any:
    return _referred(value, info) if isinstance(value, dict) else value


def _resolved(path: Path, info: ValidationInfo) -> Path:
    return read_environment(info).base / path


def _existing(path: Path, info: ValidationInfo) -> Path:
    if read_environment(info).look_up and not path.is_file():
        raise refusal(f"there is no file {path}", "name an existing file, relative to this configuration")
    return path


def _matching(path: Path, info: ValidationInfo) -> Path:
    if read_environment(info).look_up and not glob.glob(os.fspath(path), recursive=True):
        raise refusal(f"nothing matches {path}", "name existing files, relative to this configuration")
    return path


_REFERENCE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "env": {"type": "string", "description": "Name of the environment variable that holds it."},
        "file": {"type": "string", "description": "File that holds it, relative to this configuration."},
    },
    "additionalProperties": False,
    "minProperties": 1,
    "maxProperties": 1,
}

Secret = Annotated[SecretStr, BeforeValidator(_secret), WithJsonSchema(_REFERENCE)]
Username = Annotated[str, BeforeValidator(_text), WithJsonSchema({"anyOf": [{"type": "string"}, _REFERENCE]})]
LocalPath = Annotated[Path, AfterValidator(_resolved)]
ExistingFile = Annotated[Path, AfterValidator(_resolved), AfterValidator(_existing)]
FilePattern = Annotated[Path, AfterValidator(_resolved), AfterValidator(_matching)]
