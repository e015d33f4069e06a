# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)
"""Columns into rows, without holding the interpreter. Imported only with Numba."""

from __future__ import annotations

from tidings.matching.columnar.grid_kernels import compiled


@compiled
def scatter(matrix, place, valid, values):
    """Write the valid values of a column to one place of each row; NaN is no value."""
    for i in range(matrix.shape[0]):
        if valid[i] and values[i] == values[i]:
            matrix[i, place] = values[i]


@compiled
def scatter_coded(matrix, place, valid, codes, values):
    """The same for a column of codes into a few values."""
    for i in range(matrix.shape[0]):
        if valid[i]:
            matrix[i, place] = values[codes[i]]
