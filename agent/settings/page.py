"""Settings of the operator page: its bounds. Where it listens, and who may use it, is in `http`. Pure."""

from pydantic import Field

from agent.settings.alarms import Text
from agent.settings.section import Count, Flag, Name, Section, Slug
from agent.settings.units import Size


class PageHistory(Section):
    """What the page holds; the oldest go first, and the page says how far back it reaches."""

    assets: Count = Field(default=10_000, le=1_000_000, description="Most assets; further ones are not shown.")
    events: Count = Field(default=200_000, le=10_000_000, description="Most events.")
    memory: Size = Field(default=Size.parse("256MiB"), description="Most memory of events.")


class PageStreams(Section):
    """Open pages, each of which has one stream."""

    per_session: Count = Field(default=4, le=64, description="Most streams of one session; further ones must poll.")
    total: Count = Field(default=100, le=1000, description="Most streams of all sessions.")


class PageAdvice(Section):
    """What to do about some states, for plants without alarm rules; the page shows it with the evidence."""

    group: Slug = Field(description="Group of the assets.")
    states: tuple[Name, ...] = Field(min_length=1, description="States that it is for.")
    action: Text = Field(description="What to do.")
    cause: Text | None = Field(default=None, description="The most likely cause.")


class Page(Section):
    """The operator page, served by `run` beside health and metrics, and by `anchormoe-agent page`."""

    enabled: Flag = Field(default=True, description="Whether `run` serves the page.")
    history: PageHistory = Field(default=PageHistory(), description="What the page holds.")
    streams: PageStreams = Field(default=PageStreams(), description="Open pages.")
    advice: tuple[PageAdvice, ...] = Field(
        default=(), description="What to do, by state; alarm rules say it by themselves."
    )
