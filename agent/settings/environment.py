"""What a configuration file refers to: environment variables, secret files, paths relative to itself.

The environment is passed in as a value; only the commands pass the real one.
"""

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationInfo, WithJsonSchema

from agent.settings.problems import invalid
from agent.settings.secrets import FileSecret


@dataclass(frozen=True, slots=True)
class Environment:
    """`look_up=False` does not read secrets and does not look for files: a build server has none of them."""

    base: Path = Path()
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    look_up: bool = True


def read_environment(info: ValidationInfo) -> Environment:
    return info.context if isinstance(info.context, Environment) else Environment(look_up=False)


def with_address(raw: Any, name: str, variable: str, info: ValidationInfo) -> Any:
    """The section with the address from the environment, which overrides the file."""
    address = read_environment(info).environ.get(variable)
    return {**raw, name: address} if address and isinstance(raw, dict) else raw


def _from_environment(variable: str, environment: Environment) -> str:
    try:
        value = environment.environ.get(variable, "")
    except UnicodeEncodeError:  # no variable can have such a name
        value = ""
    if not value:
        raise invalid(f"the environment variable {variable} is not set", "set it, or name another one")
    return value


def _from_file(name: str, environment: Environment) -> str:
    try:
        value = (environment.base / name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        may_pass = isinstance(error, OSError)
        raise invalid(
            f"cannot read {name}: {_reason(error)}", "name a readable text file", may_pass=may_pass
        ) from error
    if not value:
        raise invalid(f"{name} is empty", "write the secret into it", may_pass=True)
    return value


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or "unreadable") if isinstance(error, OSError) else "not text"


_READERS = {"env": _from_environment, "file": _from_file}


def _resolve_reference(value: Any, info: ValidationInfo) -> str:
    """The text behind {env: NAME} or {file: PATH}."""
    kind, name = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else ("", None)
    if kind not in _READERS or not isinstance(name, str) or not name:
        raise invalid("secrets do not belong in this file", "write {env: VARIABLE} or {file: PATH}")
    environment = read_environment(info)
    return _READERS[kind](name, environment) if environment.look_up else f"<{kind} {name}>"


def _secret(value: Any, info: ValidationInfo) -> Any:
    """A secret in a file is read again when the file changes."""
    if value is None or isinstance(value, SecretStr):
        return value
    text, environment = _resolve_reference(value, info), read_environment(info)
    if "file" in value and environment.look_up:
        return FileSecret(environment.base / value["file"], text)
    return SecretStr(text)


def _text(value: Any, info: ValidationInfo) -> Any:
    return _resolve_reference(value, info) if isinstance(value, dict) else value


def _resolve_path(path: Path, info: ValidationInfo) -> Path:
    return read_environment(info).base / path


def _require_file(path: Path, info: ValidationInfo) -> Path:
    if read_environment(info).look_up and not path.is_file():
        raise invalid(
            f"there is no file {path}", "name an existing file, relative to this configuration", may_pass=True
        )
    return path


def _require_match(path: Path, info: ValidationInfo) -> Path:
    if read_environment(info).look_up and not glob.glob(os.fspath(path), recursive=True):
        raise invalid(f"no file matches {path}", "name existing files, relative to this configuration", may_pass=True)
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
LocalPath = Annotated[Path, AfterValidator(_resolve_path)]
ExistingFile = Annotated[Path, AfterValidator(_resolve_path), AfterValidator(_require_file)]
FilePattern = Annotated[Path, AfterValidator(_resolve_path), AfterValidator(_require_match)]
