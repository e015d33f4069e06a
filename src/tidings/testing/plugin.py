"""Pytest fixtures for users of Tidings (filled by the embedded broker)."""
