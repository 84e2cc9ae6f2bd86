"""Give memory back to the system.

The C library keeps what it was handed back in small pieces, in the hope that it is needed again.
After thousands of objects were packed it is not.
"""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Does nothing where the C library cannot do it (only glibc can)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
