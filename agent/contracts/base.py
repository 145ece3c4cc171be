"""The rules every published model keeps: nothing unnamed, nothing changed, every field described. Pure."""

from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, WithJsonSchema

VERSION = "1.3.0"
"""Of the contract, not of the package: the second number rises with an addition, the first with anything else."""

RFC3339_UTC = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?Z$"

Timestamp = Annotated[AwareDatetime, WithJsonSchema({"type": "string", "format": "date-time", "pattern": RFC3339_UTC})]
"""RFC 3339 in UTC on the wire, up to nanoseconds; here a datetime, cut to microseconds."""


class Contract(BaseModel):
    """Strict, so that a test notices when code and contract part. Readers validate with `extra="ignore"`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True, allow_inf_nan=False)


def described(text: str, *, unit: str | None = None, **rules: Any) -> Any:
    """A field that says what it means; `unit` is that of its numbers, "1" for none."""
    return Field(description=text, json_schema_extra=None if unit is None else {"x-unit": unit}, **rules)
