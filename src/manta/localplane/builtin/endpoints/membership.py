"""Which Pods each Service selects, updated with every change.

A change of a Pod does not scan all Services of its namespace, nor a reconcile of a Service all Pods:
with a thousand clusters in one namespace either would take seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from manta.api.meta import Key
from manta.localplane.builtin.views import Pod, Service


class Membership:
    def __init__(self) -> None:
        self._services: dict[Key, dict[str, str]] = {}
        self._by_term: dict[tuple[str, str, str], dict[Key, None]] = {}
        self._members: dict[Key, dict[Key, None]] = {}

    def members(self, service: Key) -> tuple[Key, ...]:
        return tuple(self._members.get(service, ()))

    def set_service(self, service: Service, pods: Iterable[Pod]) -> None:
        """Add or update a Service; `pods` are those of its namespace, used if the selector is new."""
        key, selector = service.metadata.key, dict(service.spec.selector or {})
        if self._services.get(key) == selector:
            return
        self.drop_service(key)
        self._services[key] = selector
        if not selector:
            return
        self._by_term.setdefault(_term(key.namespace, selector), {})[key] = None
        self._members[key] = {
            pod.metadata.key: None for pod in pods if _matches(selector, pod.metadata.labels)
        }

    def drop_service(self, key: Key) -> None:
        selector = self._services.pop(key, None)
        self._members.pop(key, None)
        if selector:
            term = _term(key.namespace, selector)
            self._by_term[term].pop(key, None)
            if not self._by_term[term]:
                del self._by_term[term]

    def change_pod(self, old: Pod | None, new: Pod | None) -> tuple[Key, ...]:
        """Update a Pod. Returns the Services that select it, or did."""
        concerned: dict[Key, None] = {}
        for pod in (old, new):
            if pod is not None:
                concerned.update(dict.fromkeys(self._selecting(pod)))
        some = new if new is not None else old
        if some is None:
            return ()
        for service in concerned:
            members = self._members[service]
            if new is not None and _matches(self._services[service], new.metadata.labels):
                members[some.metadata.key] = None
            else:
                members.pop(some.metadata.key, None)
        return tuple(concerned)

    def _selecting(self, pod: Pod) -> Iterator[Key]:
        labels = pod.metadata.labels
        for name, text in labels.items():
            for service in self._by_term.get((pod.metadata.namespace, name, text), ()):
                if _matches(self._services[service], labels):
                    yield service


def _term(namespace: str, selector: dict[str, str]) -> tuple[str, str, str]:
    """The label under which a Service is indexed: the longest value is the most selective."""
    name, text = max(selector.items(), key=lambda term: (len(term[1]), term))
    return namespace, name, text


def _matches(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return all(labels.get(name) == text for name, text in selector.items())
