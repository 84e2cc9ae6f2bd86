"""Makes a failing story short: takes steps away, and simplifies the rest, while the same oracle still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from simulation.story import Step, Story

Fails = Callable[[Story], bool]
MOST_RUNS = 60


def shrink(story: Story, fails: Fails, most: int = MOST_RUNS) -> Story:
    """The shortest story found within so many runs. `fails` says whether a candidate still fails alike."""
    left = [most]

    def still(candidate: Story) -> bool:
        if left[0] <= 0:
            return False
        left[0] -= 1
        return fails(candidate)

    smaller = True
    while smaller and left[0] > 0:
        smaller = False
        for candidate in _candidates(story):
            if still(candidate):
                story, smaller = candidate, True
                break
    return story


def _candidates(story: Story) -> Iterator[Story]:
    """Smaller stories, the smallest first: halves of the steps, single steps, simpler circumstances."""
    steps = story.steps
    size = len(steps) // 2
    while size >= 1:
        for begin in range(0, len(steps), size):
            kept = (*steps[:begin], *steps[begin + size :])
            if _creates(kept) and kept != steps:
                yield story.with_steps(kept)
        size //= 2
    yield from _simpler(story)


def _simpler(story: Story) -> Iterator[Story]:
    plain = Story(seed=0, profile="", steps=())
    for name in ("latency", "replicas", "settings"):
        if getattr(story, name) != getattr(plain, name):
            yield msgspec.structs.replace(story, **{name: getattr(plain, name)})
    for number, step in enumerate(story.steps):
        for smaller in _simpler_objects(step):
            yield story.with_steps((*story.steps[:number], smaller, *story.steps[number + 1 :]))


def _simpler_objects(step: Step) -> Iterator[Step]:
    """A created object with one optional field of its spec less."""
    if step.do != "create":
        return
    found = step.args["object"]
    needed = ("headGroupSpec", "rayClusterSpec", "rayClusterConfig", "serveConfigV2", "entrypoint")
    for field in [one for one in found["spec"] if one not in (*needed, "schedule", "jobTemplate")]:
        spec = {key: value for key, value in found["spec"].items() if key != field}
        yield Step(at=step.at, do="create", args={"object": {**found, "spec": spec}})


def _creates(steps: tuple[Step, ...]) -> bool:
    return any(step.do == "create" for step in steps)
