"""The additive model: normalizer, sources, calibration, abstention."""
