# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)
"""Arrays from addresses, and the exact check of a row. Imported only with Numba."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from tidings.matching.columnar.grid_kernels import compiled
from tidings.matching.columnar.rows import PART

ANY = 1 << 40  # lengths are not checked here; whoever fills the table of addresses knows them


@intrinsic
def _pointer(_context, _address):
    def generate(context, builder, _signature, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@intrinsic
def prefetch(_context, _address):
    """Ask for a line of memory before it is needed. The address need not be valid."""

    def generate(context, builder, _signature, args):
        place = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [place.type, *[ir.IntType(32)] * 3])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [place, *(ir.Constant(ir.IntType(32), n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@compiled
def doubles(address):
    return carray(_pointer(address), (ANY,), np.float64)


@compiled
def longs(address):
    return carray(_pointer(address), (ANY,), np.int64)


@compiled
def ints(address):
    return carray(_pointer(address), (ANY,), np.int32)


@compiled
def shorts(address):
    return carray(_pointer(address), (ANY,), np.uint16)


@compiled
def small(address):
    return carray(_pointer(address), (ANY,), np.uint8)


@compiled
def records(address):
    return carray(_pointer(address), (ANY,), PART)


@compiled
def holds(start, stop, row, rest, parts, points, rests):
    """Do all parts of a row hold, exactly?"""
    for p in range(start, stop):
        part = parts[p]
        s = part.slot
        v = row[s]
        if not (part.lo <= v and v <= part.hi):
            return False
        if v == part.lo and rest[s] < part.lo_rest:
            return False
        if v == part.hi and rest[s] > part.hi_rest:
            return False
        if part.count != 0:
            hit = False
            for q in range(part.at, part.at + (part.count & 0x7FFF)):
                if points[q] == v and rests[q] == rest[s]:
                    hit = True
            if hit == (part.count >= 0x8000):
                return False
    return True
