"""What can go wrong in the model library, by what the caller should do about it."""


class ModelError(Exception):
    """The artefact does not fit: a damaged bundle, wrong shapes, a golden window that disagrees. It never serves."""


class DataError(Exception):
    """The data cannot be used as asked; the message names the file, the row, the channel or the class."""
