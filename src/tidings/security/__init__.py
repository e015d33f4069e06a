"""Identity, permissions and quotas. Pure: no socket, no clock of its own.

The drivers ask this package before they accept or deliver an event; `users.read_users` makes everything
here from one TOML file.
"""
