"""The flight recorder: the last reconciles on disk without secrets, and their replay by any version of Manta."""
