"""Storage that is in use stays: claims while a Pod mounts them, volumes while a claim holds them.

The server gives every claim and volume a finalizer; these controllers take it away in time.
"""
