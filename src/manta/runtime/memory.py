"""Returns freed memory to the operating system.

glibc keeps freed memory for later allocations. After thousands of objects were listed or compressed
nobody needs it again.
"""

from __future__ import annotations

import ctypes


def release_memory() -> None:
    """Does nothing where the C library is not glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
