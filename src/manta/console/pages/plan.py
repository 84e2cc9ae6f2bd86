"""The page Plan: edit YAML, see what would happen, apply it. Pure."""

from __future__ import annotations

from manta.console.html import Html, join, tag
from manta.console.pages.forecast import Forecast, forecast_html
from manta.console.pages.page import Page, Section

EXAMPLE = """\
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: demo
  namespace: default
spec:
  rayVersion: 2.52.0
  headGroupSpec:
    rayStartParams: {}
    template:
      spec:
        containers:
          - name: ray-head
            image: rayproject/ray:2.52.0
            resources: {requests: {cpu: "1", memory: 2Gi}, limits: {memory: 2Gi}}
  workerGroupSpecs:
    - groupName: small
      replicas: 1
      minReplicas: 0
      maxReplicas: 5
      rayStartParams: {}
      template:
        spec:
          containers:
            - name: ray-worker
              image: rayproject/ray:2.52.0
              resources: {requests: {cpu: "1", memory: 2Gi}, limits: {memory: 2Gi}}
"""


def plan_page(text: str = EXAMPLE, forecasts: tuple[Forecast, ...] = ()) -> Page:
    """The editor, and below it what applying the text would do; with a button if nothing is wrong."""
    editor = tag(
        "textarea", f"\n{text}", name="yaml", spellcheck="false", aria_label="YAML", rows=28
    )
    fits = bool(forecasts) and not any(one.problems for one in forecasts)
    row = tag(
        "div",
        tag("button", "Plan", name="do", value="plan", class_=None if fits else "primary"),
        tag("button", "Apply", name="do", value="apply", class_="primary") if fits else None,
        tag("span", "Nothing is written before you press Apply.", class_="note"),
        class_="filter",
    )
    form = tag("form", editor, row, method="post", action="/plan")
    heading = join([tag("h1", "Plan"), tag("p", "what the operator would do", class_="lead")])
    result = (Section("result", "What would happen", _shown(forecasts)),) if forecasts else ()
    return Page("Plan", heading, (*result, Section("editor", "", form)), live=False)


def _shown(forecasts: tuple[Forecast, ...]) -> Html:
    return join([tag("div", forecast_html(one)) for one in forecasts])
