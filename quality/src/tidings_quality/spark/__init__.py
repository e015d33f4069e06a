"""The quality of tables, measured on Spark: measures, a factory that keeps what it found, linkage of copies.

This package knows neither organisations nor notifications: rows go in, qualities and their changes come out.
The package above it handles the changes.
"""
