"""The four kinds of patches: JSON, merge, strategic merge and server-side apply.

All functions are pure. A result shares its unchanged parts with the input, so that later steps can skip
them by identity.
"""
