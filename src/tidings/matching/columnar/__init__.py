"""The compiled columnar matcher: frozen arrays, a small delta, kernels over both.

Read in this order: `slots` (an attribute and a kind is a slot), `strings` (text as ordered
positions), `rows` (filters as records), `geometry` (buckets), `build` (the pair grid),
`kernels` (the walk), `matcher` (tables, delta, upkeep), `files` (a table on disk).
"""
