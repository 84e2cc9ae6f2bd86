"""Pulling the images of one Pod: told as a kubelet tells it, tried again ever more rarely."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from manta.localplane.node import events
from manta.localplane.node.events import PodEvents
from manta.localplane.node.images import PullError
from manta.localplane.node.podbook import PodBook
from manta.localplane.node.podruntime import PodRuntime
from manta.localplane.node.podspec import Container
from manta.localplane.node.snapshot import Step, Task
from manta.runtime.clock import Clock

_PULL_DELAYS = (10.0, 20.0, 40.0, 80.0, 160.0, 300.0)


class Puller:
    def __init__(self, runtime: PodRuntime, clock: Clock, told: PodEvents, book: PodBook) -> None:
        self._runtime = runtime
        self._clock = clock
        self._events = told
        self._book = book

    async def pull(self, container: Container) -> None:
        try:
            image_id = await self._pull(container)
        except PullError as error:
            self._fail(container, error)
        except OSError as error:
            message = f'Failed to pull image "{container.image}": {error}'
            self._fail(container, PullError(message))
        else:
            self._book.change(container.name, image=Task(Step.DONE), image_id=image_id)

    async def _pull(self, container: Container) -> str:
        image = container.image
        present = self._runtime.image_present(container)
        if present is not None and container.image_pull_policy != "Always":
            note = f'Container image "{image}" already present on machine'
            self._events.tell(events.PULLED, note)
            return present
        if container.image_pull_policy == "Never":
            message = f'Container image "{image}" is not present with pull policy of Never'
            raise PullError(message, "ErrImageNeverPull")
        self._events.tell(events.PULLING, f'Pulling image "{image}"')
        began = self._clock.monotonic()
        image_id = await self._runtime.pull(container)
        seconds = self._clock.monotonic() - began
        note = f'Successfully pulled image "{image}" in {seconds:.3f}s'
        self._events.tell(events.PULLED, note)
        return image_id

    def _fail(self, container: Container, error: PullError) -> None:
        """First the error itself, then, while waiting, that we wait: as a kubelet shows it."""
        self._events.tell(events.PULL_FAILED, str(error))
        failed = self._book.trouble(
            f"pull {container.name}", error.reason, str(error), _PULL_DELAYS
        )
        self._book.change(container.name, image=failed)
        if error.reason != "ErrImagePull":
            return
        self._book.spawn(self._call_it_back_off(container, failed))

    async def _call_it_back_off(self, container: Container, failed: Task) -> None:
        await asyncio.sleep(2)
        if self._book.of(container.name).image != failed or failed.trouble is None:
            return
        note = f'Back-off pulling image "{container.image}"'
        self._events.tell(events.PULL_BACK_OFF, note)
        message = f"{note}: {failed.trouble.reason}: {failed.trouble.message}"
        trouble = replace(failed.trouble, reason="ImagePullBackOff", message=message)
        self._book.change(container.name, image=replace(failed, trouble=trouble))
