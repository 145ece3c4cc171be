"""Files as a resumable source: JSONL, CSV, Parquet or logged records."""

from connectors.files.rows import FileFormat
from connectors.files.source import FileSource, find_files, matching_files

__all__ = ["FileFormat", "FileSource", "find_files", "matching_files"]
