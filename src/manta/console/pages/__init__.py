"""One file per page: a pure function of a snapshot."""
