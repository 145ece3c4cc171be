"""The errors of the model library, by what the caller should do about them."""


class ModelError(Exception):
    """The model cannot be used: a damaged bundle, wrong shapes, golden windows with other results. Do not serve it."""


class DataError(Exception):
    """The data or settings cannot be used as asked; the message names the file, row, channel, class or setting."""
