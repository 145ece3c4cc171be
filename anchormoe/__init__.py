"""The AnchorMoE model library: data, model, training, explanation and bundles. Works alone."""
