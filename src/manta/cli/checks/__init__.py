"""Checks of `manta doctor` and `manta submit`: each returns a result and a fix."""
