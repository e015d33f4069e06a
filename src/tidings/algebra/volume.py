"""Exact volume of unions of axis-parallel boxes, and of the intersection of two unions.

Rules
- Boxes are an array of shape (n, 2, d): low corners and high corners. Exact means: no sampling;
  only the rounding of floating-point sums.
- Few boxes are laid on the grid of their own coordinates; a difference array says which grid cells
  are inside. If that grid would be too large, space is cut in two at a median coordinate
  and each half keeps the boxes that reach it: a half inside one box, or without a box, is done.
- The measure of two unions together is one walk, so a disjoint pair gives 0.0 and not a residue.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Boxes: TypeAlias = NDArray[np.float64]  # (n, 2, d)
Box: TypeAlias = NDArray[np.float64]  # (2, d)

GRID_CELLS = 1 << 16  # largest grid laid at once; more needs memory, less cuts space more often
_PAIRWISE = 256  # boxes up to which every pair is compared for one inside the other


def box_volume(box: Box) -> float:
    return float(np.prod(box[1] - box[0]))


def union_volume(boxes: Boxes) -> float:
    """The volume of the union."""
    boxes = solid(boxes)
    if len(boxes) == 0:
        return 0.0
    return _union(boxes, hull(boxes))


def common_volume(one: Boxes, other: Boxes) -> float:
    """The volume of the intersection of two unions."""
    one, other = solid(one), solid(other)
    if len(one) == 0 or len(other) == 0:
        return 0.0
    first, second = hull(one), hull(other)
    cell = np.stack([np.maximum(first[0], second[0]), np.minimum(first[1], second[1])])
    return _common(clipped(one, cell), clipped(other, cell), cell)


def solid(boxes: Boxes) -> Boxes:
    """The boxes that have a volume."""
    return boxes[(boxes[:, 1] > boxes[:, 0]).all(axis=1)]


def hull(boxes: Boxes) -> Box:
    """The smallest box around all."""
    return np.stack([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)])


def clipped(boxes: Boxes, cell: Box) -> Boxes:
    """The parts of the boxes inside the cell; boxes without volume there are left out."""
    result = np.empty_like(boxes)
    np.maximum(boxes[:, 0], cell[0], out=result[:, 0])
    np.minimum(boxes[:, 1], cell[1], out=result[:, 1])
    return solid(result)


def inside_one(box: Box, boxes: Boxes) -> bool:
    """Does the box lie inside one of the boxes?"""
    return bool(((boxes[:, 0] <= box[0]) & (boxes[:, 1] >= box[1])).all(axis=1).any())


def pruned(boxes: Boxes) -> Boxes:
    """The boxes that lie in no other one (of equals, one stays)."""
    if len(boxes) <= _PAIRWISE:
        return maximal(boxes)
    largest_first = np.argsort(-np.prod(boxes[:, 1] - boxes[:, 0], axis=1), kind="stable")
    kept = np.empty_like(boxes)
    count = 0
    for box in boxes[largest_first]:
        if not inside_one(box, kept[:count]):
            kept[count] = box
            count += 1
    return kept[:count].copy()


def maximal(boxes: Boxes) -> Boxes:
    """The same, by comparing all pairs; of very many boxes, all: then it is no gain."""
    if len(boxes) < 2 or len(boxes) > _PAIRWISE:
        return boxes
    low, high = boxes[:, 0], boxes[:, 1]
    inside = np.ones((len(boxes), len(boxes)), dtype=np.bool_)
    for axis in range(boxes.shape[2]):
        inside &= low[:, None, axis] >= low[None, :, axis]
        inside &= high[:, None, axis] <= high[None, :, axis]
    np.fill_diagonal(inside, False)
    later = np.arange(len(boxes))[:, None] > np.arange(len(boxes))[None]
    inside &= ~inside.T | later
    return boxes[~inside.any(axis=1)]


def _union(boxes: Boxes, cell: Box) -> float:
    if len(boxes) == 0:
        return 0.0
    if len(boxes) == 1:
        return box_volume(boxes[0])
    if inside_one(cell, boxes):
        return box_volume(cell)
    boxes = maximal(boxes)
    axes = _axes(boxes)
    if _cells(axes) <= GRID_CELLS:
        return _weighed(_occupied(boxes, axes), axes)
    return sum(_union(clipped(boxes, half), half) for half in _halves(cell, axes))


def _common(one: Boxes, other: Boxes, cell: Box) -> float:
    if len(one) == 0 or len(other) == 0:
        return 0.0
    if inside_one(cell, one):
        return _union(other, cell)
    if inside_one(cell, other):
        return _union(one, cell)
    one, other = maximal(one), maximal(other)
    axes = _axes(np.concatenate([one, other]))
    if _cells(axes) <= GRID_CELLS:
        return _weighed(_occupied(one, axes) & _occupied(other, axes), axes)
    return sum(_common(clipped(one, half), clipped(other, half), half) for half in _halves(cell, axes))


def _axes(boxes: Boxes) -> list[NDArray[np.float64]]:
    """The distinct coordinates along each axis."""
    return [np.unique(boxes[:, :, axis]) for axis in range(boxes.shape[2])]


def _cells(axes: list[NDArray[np.float64]]) -> int:
    count = 1
    for axis in axes:
        count *= len(axis) - 1
    return count


def _occupied(boxes: Boxes, axes: list[NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Mask of the grid cells inside a box: corners as differences, then running sums."""
    count = np.zeros([len(axis) for axis in axes], dtype=np.int32)
    positions = [np.searchsorted(axis, boxes[:, :, number]) for number, axis in enumerate(axes)]
    for corner in np.ndindex(*(2,) * len(axes)):
        index = tuple(position[:, side] for position, side in zip(positions, corner, strict=True))
        np.add.at(count, index, -1 if sum(corner) % 2 else 1)
    for number in range(len(axes)):
        np.cumsum(count, axis=number, out=count)
    inside: NDArray[np.bool_] = count[tuple(slice(0, -1) for _ in axes)] > 0
    return inside


def _weighed(inside: NDArray[np.bool_], axes: list[NDArray[np.float64]]) -> float:
    total: NDArray[np.float64] = inside.astype(np.float64)
    for axis in reversed(axes):
        total = total @ np.diff(axis)
    return float(total)


def _halves(cell: Box, axes: list[NDArray[np.float64]]) -> tuple[Box, Box]:
    """The cell cut in two at the median coordinate of the axis that has most of them."""
    longest = max(range(len(axes)), key=lambda number: len(axes[number]))
    middle = axes[longest][len(axes[longest]) // 2]
    below, above = cell.copy(), cell.copy()
    below[1, longest] = above[0, longest] = middle
    return below, above
