"""What the server fills in where a built-in object says nothing, one file per family of kinds.

These functions change the object that they are given; `preparing` hands them a copy.
"""
