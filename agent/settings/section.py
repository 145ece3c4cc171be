"""Base of all sections of the settings: frozen, unknown keys rejected, rules between fields; and common types. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, Strict, model_validator
from pydantic_core import CoreSchema, core_schema

from agent.settings.problems import Problem, invalid, invalid_section, without_login
from connectors.record_schema import ASSET_ID, ASSET_ID_WORDS

# YAML has numbers and booleans of its own, so "5" or yes for a number is a mistake, not another spelling.
Whole = Annotated[int, Strict()]
Count = Annotated[int, Strict(), Field(ge=1)]
Real = Annotated[float, Strict()]
Flag = Annotated[bool, Strict()]


@dataclass(frozen=True, slots=True)
class TextPattern:
    """A regular expression for a string, with the words that explain it to people."""

    pattern: str
    words: str

    def _validate(self, text: str) -> str:
        if re.fullmatch(self.pattern, text) is None:
            raise invalid(f"{without_login(repr(text))} is not valid", f"use {self.words}")
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._validate, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(schema) | {"pattern": self.pattern}


Slug = Annotated[
    str, TextPattern(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "lower-case letters, digits and inner hyphens")
]
AssetId = Annotated[str, TextPattern(ASSET_ID, ASSET_ID_WORDS)]
AssetPattern = Annotated[
    str, TextPattern(r"^[A-Za-z0-9*?][A-Za-z0-9._:/*?-]{0,127}$", "letters, digits, . _ : / - inside, and * or ?")
]
Topic = Annotated[str, TextPattern(r"^[A-Za-z0-9._-]{1,249}$", "letters, digits and . _ -")]
Name = Annotated[str, Field(min_length=1, max_length=128)]


class Section(BaseModel):
    """A mapping in plant.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    def broken_rules(self) -> Iterator[Problem]:
        """Rules between the fields of this section; paths are relative to it."""
        yield from ()

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        if problems := list(self.broken_rules()):
            raise invalid_section(problems)
        return self


def find_duplicates(values: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Position and value of everything that an earlier position has too."""
    return ((at, value) for at, value in enumerate(values) if value in values[:at])
