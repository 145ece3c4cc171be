"""More than can be ingested at once; nothing is wrong with it, it must be cut. Pure."""


class TooMuchAtOnce(Exception):
    """A batch that must be cut and tried again. Whoever raises it, the windows may be half changed by then.

    `fits` is how many of its samples, in log order, are few enough; None where that is not known.
    """

    def __init__(self, fits: int | None = None) -> None:
        super().__init__(f"too much at once; {fits} samples would fit" if fits is not None else "too much at once")
        self.fits = fits
