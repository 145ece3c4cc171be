"""The paper's nine explainers and occlusion: five by captum, the others written from their papers' equations."""
