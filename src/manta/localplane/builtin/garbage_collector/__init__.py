"""The garbage collector: deletes objects whose owners are all gone.

`graph` holds the owner references, `snapshot` is one object with its owners and dependents, `plan` is
pure, `controller` watches the metadata of all kinds.

Deletion has three modes. *Background*: the owner is deleted at once, then every dependent without
owners. *Foreground*: the finalizer `foregroundDeletion` keeps the owner until the dependents that block
it are gone. *Orphan*: the finalizer of that name keeps the owner until the owner references of its
dependents are removed.
"""
