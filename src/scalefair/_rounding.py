"""Numbers of double precision: the same for every algorithm."""

import numpy as np

# Distance from 1.0 to the next larger number.
EPS = float(np.finfo(np.float64).eps)
# Smallest positive number with all its digits: a divisor that is never zero.
TINY = float(np.finfo(np.float64).tiny)
# Relative error that sums of up to a million terms may have: a few thousand EPS.
ROUNDING = 1e-12
