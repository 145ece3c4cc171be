"""plant.yaml as one frozen tree; every field has a description, and every problem is reported at once."""

from agent.settings.alarms import AlarmRule, Alarms, AlarmWebhook
from agent.settings.formats import file_format, group_layouts, record_format
from agent.settings.groups import Channel, Group, Window
from agent.settings.http import Http
from agent.settings.loading import Examination, LoadedPlant, examine, load_plant, load_settings
from agent.settings.network import KafkaSecurity, Retries
from agent.settings.plant import Checkpointing, Inference, Limits, Logging, Models, Plant, settings_schema
from agent.settings.problems import Problem
from agent.settings.records import Records, TimeField
from agent.settings.resolve import ResolvedChannel, ResolvedGroup, reconcile
from agent.settings.sinks import (
    ConsoleSinkSettings,
    Emission,
    JsonlSinkSettings,
    KafkaSinkSettings,
    Sink,
    WebhookSinkSettings,
)
from agent.settings.sources import (
    FileSourceSettings,
    KafkaSourceSettings,
    MemorySourceSettings,
    SimulatorSourceSettings,
    Source,
)
from agent.settings.stores import MemoryStoreSettings, RedisStoreSettings, RedisTls, Store
from agent.settings.units import Duration, Size

__all__ = [
    "AlarmRule",
    "AlarmWebhook",
    "Alarms",
    "Channel",
    "Checkpointing",
    "ConsoleSinkSettings",
    "Duration",
    "Emission",
    "Examination",
    "FileSourceSettings",
    "Group",
    "Http",
    "Inference",
    "JsonlSinkSettings",
    "KafkaSecurity",
    "KafkaSinkSettings",
    "KafkaSourceSettings",
    "Limits",
    "LoadedPlant",
    "Logging",
    "MemorySourceSettings",
    "MemoryStoreSettings",
    "Models",
    "Plant",
    "Problem",
    "Records",
    "RedisStoreSettings",
    "RedisTls",
    "ResolvedChannel",
    "ResolvedGroup",
    "Retries",
    "SimulatorSourceSettings",
    "Sink",
    "Size",
    "Source",
    "Store",
    "TimeField",
    "WebhookSinkSettings",
    "Window",
    "examine",
    "file_format",
    "group_layouts",
    "load_plant",
    "load_settings",
    "reconcile",
    "record_format",
    "settings_schema",
]
