"""Recordings in files as a source: JSONL or CSV, resumable."""

from connectors.files.rows import FileFormat
from connectors.files.source import FileSource, find_files

__all__ = ["FileFormat", "FileSource", "find_files"]
