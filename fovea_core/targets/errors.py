"""What goes wrong with a target, apart from base so that what only reads folders needs no torch."""


class TargetError(ValueError):
    """One sentence for a person: why this target cannot be used, or not for this request."""
