"""Data quality as an application: organisations share data, and people hear when its quality changes.

The model (`model`, `schema`) is that of Virgillito (2003), section 5.2.1; the rest of the room is
built on it. See quality/docs/quality-notification.md.
"""
