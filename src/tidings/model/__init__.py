"""The words of Tidings as immutable values. Imports nothing else of ours but the errors."""
