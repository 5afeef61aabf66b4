"""The version of this package, for reports and for the public name ``__version__``."""

__version__ = "0.1.0"
