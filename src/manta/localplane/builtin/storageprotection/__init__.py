"""Keeps storage that is in use: claims while a Pod mounts them, volumes while a claim is bound.

The API server sets a finalizer on every claim and volume; these controllers remove it.
"""
