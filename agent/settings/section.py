"""What every part of the settings tree has in common: frozen, unknown keys refused, rules between its fields. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, Strict, model_validator
from pydantic_core import CoreSchema, core_schema

from agent.settings.problems import Problem, refusal, refusals, without_login

# YAML has real numbers and booleans, so "5", yes-as-a-number and the like are mistakes, not spellings.
Whole = Annotated[int, Strict()]
Count = Annotated[int, Strict(), Field(ge=1)]
Real = Annotated[float, Strict()]
Flag = Annotated[bool, Strict()]


@dataclass(frozen=True, slots=True)
class Shape:
    """A pattern for texts, with the words that explain it to people."""

    pattern: str
    words: str

    def _fitting(self, text: str) -> str:
        if re.fullmatch(self.pattern, text) is None:
            raise refusal(f"{without_login(repr(text))} does not fit", f"use {self.words}")
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._fitting, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(schema) | {"pattern": self.pattern}


Slug = Annotated[str, Shape(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "lower-case letters, digits and inner hyphens")]
AssetId = Annotated[str, Shape(r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$", "letters, digits and . _ : / - inside")]
AssetPattern = Annotated[
    str, Shape(r"^[A-Za-z0-9*?][A-Za-z0-9._:/*?-]{0,127}$", "letters, digits, . _ : / - inside, and * or ?")
]
Topic = Annotated[str, Shape(r"^[A-Za-z0-9._-]{1,249}$", "letters, digits and . _ -")]
Name = Annotated[str, Field(min_length=1, max_length=128)]


class Section(BaseModel):
    """A mapping in plant.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    def broken_rules(self) -> Iterator[Problem]:
        """Rules between the fields of this section; paths are relative to it."""
        yield from ()

    @model_validator(mode="after")
    def _keeps_its_rules(self) -> Self:
        if found := list(self.broken_rules()):
            raise refusals(found)
        return self
