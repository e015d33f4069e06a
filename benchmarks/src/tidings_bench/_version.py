"""The version, the same for all packages of the repository."""

__version__ = "0.2.0"
