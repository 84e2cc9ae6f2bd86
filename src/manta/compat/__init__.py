"""Modules with the names and signatures of other projects' clients, over the SDK."""
