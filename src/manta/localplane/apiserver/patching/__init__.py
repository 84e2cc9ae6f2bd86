"""How a change described by a client becomes a new object: the four kinds of patches.

Everything here is pure. No function changes what it is given; a result shares the parts that
did not change with its input, so that later steps can skip them by identity.
"""
