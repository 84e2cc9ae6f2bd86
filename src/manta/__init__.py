"""Manta: a Kubernetes operator for Ray, and a one-machine plane that runs Ray without Kubernetes."""

__version__ = "0.1.0"
