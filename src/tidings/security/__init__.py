"""Identity, permissions and quotas. Pure: no socket, no clock of its own.

The drivers ask this room before they let anything in or out; `users.read_users` makes everything
here from one TOML file.
"""
