"""The operator as Kubernetes objects: manifests, permissions, and what an installation made."""
