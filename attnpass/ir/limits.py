"""The numbers that stand for "minus infinity" and for sizes that nobody knows, each said once.

Four questions are asked of low numbers, and each has answers of its own: which is the lowest
(`LOWEST`), which leave a key no weight (`HIDES...`), which leave nothing of a score that is added
to them (`ABSORBS...`), and which log2(e), by which IREE multiplies scores, makes infinite
(`LOG2E...`). They stand at the bottom of the library, since the bytes of a tensor ask for them.
"""

from __future__ import annotations

import math

# The lowest finite f32: the largest score of a row that has seen no key, as IREE has it.
LOWEST = -float.fromhex("0x1.fffffep127")

# Exponentials of scores this far below the row's largest are exactly 0 in every type that
# the kernels take; f16 has no lower finite number.
HIDES = -65504.0
# As low as programs hide keys by: a key that is given this score, or this as an addend to scores
# that are not far from 0, has no weight beside one that is seen, nor with a fifth of it.
HIDES_BESIDE_SEEN = -1e4
HIDES_SCALED = -2e3
# In f32 a score that is added to this leaves no trace in a weight: the region may choose by it.
HIDES_ADDED = -1e9
# Precompiled kernels: a mask's number that hides its key, and that at which a row is moved to 0.
HIDES_IN_KERNELS = -3e7
FAR_IN_KERNELS = -1e7
# A mask's number that kernels which settle unseen rows take for a score, below their -3.5e7: a row
# of nothing else is even. Of 8 digits, and times log2(e) rounded by 2 at most.
EVEN_IN_KERNELS = -float(153 * 2**18)

# Added to a score, numbers from here down are themselves in f32, and so they are behind a product
# with log2(e): rows of nothing else stay even.
ABSORBS = -1e30
# From where on numbers absorb a score that is added to them, by the type of the sum.
ABSORBS_BY_TYPE = {"bf16": -(2.0**12), "f16": -(2.0**13), "f32": -(2.0**28)}
# Where f32 absorbs any score.
ABSORBS_ANY = -(2.0**50)
# Precompiled kernels: scores that are added to numbers below this do not change them. Of those that
# absorb any, times ln(2), none is above.
ABSORBS_IN_KERNELS = -(2.0**48)

# Powers of 2 stand for exponentials.
LOG2_E = math.log2(math.e)
# Times log2(e), finite numbers below the first are none any more; the second takes their place.
LOG2E_OVERFLOWS, LOG2E_LOWEST = -2.35e38, -2.3e38
# The first of them with room for a sum of two.
LOG2E_OVERFLOWS_IN_SUMS = -(2.0**126)
# Finite scores times log2(e) end here: above `LOWEST`, the maximum of no key.
LOG2E_LOWEST_SCORE = -1.5e38

# From where on numbers are rounded to infinity: the largest one and half a step.
INFINITE = {
    "f16": 65520.0,
    "bf16": float.fromhex("0x1.ffp127"),
    "f32": float.fromhex("0x1.ffffffp127"),
    "f64": math.inf,
}
# What Q in f16 is multiplied by beside factors of its rows: as far from f16's largest as its
# smallest, of whole precision, is from what scores notice.
ROW_FACTORS_IN_F16 = 2.0**-5
# Binary digits of a number.
DIGITS = {"f16": 11, "bf16": 8, "f32": 24}

# What sizes that are known only at run time are taken as where bytes and times are estimated: any
# dim, the heads of a kernel's attention, sequences of so many heads, the keys of a cache that is
# split, and, in a kernel of a product, a batch or whole tiles of rows.
ASSUMED_EXTENT = 1024
ASSUMED_HEADS = 32
ASSUMED_SEQUENCES = 4
ASSUMED_KEYS = 8192
ASSUMED_TILES = 8
# The rows of a precompiled product: of more, larger tiles are up to 12% faster; of fewer, smaller
# ones up to twice as fast.
ASSUMED_ROWS = 512
