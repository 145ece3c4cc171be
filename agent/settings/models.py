"""Bundles that can take over while the agent runs. Pure."""

from pathlib import Path

from pydantic import Field

from agent.settings.environment import LocalPath
from agent.settings.section import Section

ACTIVATIONS_FILE = "activations.jsonl"


class Models(Section):
    """Bundles that `models activate` can put in force while the agent runs."""

    directory: LocalPath = Field(
        description="Directory of bundles, one sub-directory each; relative to this configuration."
    )
    activations: LocalPath | None = Field(
        default=None,
        description="File of activations where there is no Kafka sink, relative to this configuration; "
        f"null: {ACTIVATIONS_FILE} in the directory.",
    )

    @property
    def activations_file(self) -> Path:
        return self.activations or self.directory / ACTIVATIONS_FILE
