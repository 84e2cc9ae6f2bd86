"""Tables and metadata-only answers: what `kubectl get` prints and what light informers read."""

from manta.localplane.apiserver.tables.answers import many, one, watch_renderer

__all__ = ["many", "one", "watch_renderer"]
