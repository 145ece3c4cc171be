"""Kernel evidence: closed-form additive features, ridge read-out, selection of blocks."""
