"""The garbage collector: what is owned goes with its last owner.

`graph` knows who owns whom, `snapshot` is one object with its owners and dependents, `plan`
decides about it (pure), `controller` follows all kinds and carries the plan out.

The three ways to go: in the *background* the owner goes at once, and every dependent whose owners
are all gone follows. In the *foreground* the owner stays, marked by the finalizer
`foregroundDeletion`, until the dependents that block it are gone. With *orphan* the finalizer of
that name keeps the owner until its dependents have forgotten it.
"""
