"""The quality of tables, measured on Spark: measures, a factory that keeps what it found, linkage of copies.

Nothing here knows of organisations or of notifications: rows go in, qualities and their changes come
out. What becomes of a change is the room `quality`'s.
"""
