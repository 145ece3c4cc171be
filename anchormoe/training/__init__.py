"""What every training run needs: folds, checkpoints, devices, processes."""
