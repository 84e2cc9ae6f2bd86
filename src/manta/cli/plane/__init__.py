"""The processes of `manta up` on this machine: start, health, stop and cleanup."""
