"""The partitions of this agent: assigned, claimed, restored, owned, and judged to be still the same log."""
