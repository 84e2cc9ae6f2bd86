"""A malicious Ray dashboard in a real browser: it cannot read or use the console's login."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from manta.kube.transport import Request
from support.browser import CHROMIUM, browser
from support.console_dashboards import dashboard_console, ready_cluster

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt-get install chromium")

ATTACK = """<!doctype html><title>evil</title><pre id=out></pre><script>
const out = document.getElementById("out");
const console_ = "%(console)s", other = "%(other)s";
const tried = async (name, work) => {
  let said;
  try { said = await work(); } catch (error) { said = "failed"; }
  out.append(`${name}: ${said}\\n`);
};
const read = (url, more) => fetch(url, {credentials: "include", ...more}).then((a) => a.text());
(async () => {
  await tried("cookies", () => document.cookie || "none");
  await tried("console", () => read(console_ + "/"));
  await tried("opaque", () => fetch(console_ + "/", {mode: "no-cors", credentials: "include"}).then((a) => a.type));
  await tried("api", () => read(console_ + "/apis/ray.io/v1/rayclusters"));
  await tried("other", () => read(other + "/"));
  await tried("delete", () => read(console_ + "/rayclusters/default/demo/delete", {method: "POST", mode: "no-cors"}));
  await tried("opener", () => window.opener ? window.opener.document.title : "none");
  await tried("worker", () => navigator.serviceWorker.register("/worker.js").then(() => "registered"));
  await tried("own write", () => fetch("/api/jobs/", {method: "POST"}).then((a) => a.status));
  document.cookie = "manta-console-%(port)s=forged; domain=manta-console.localhost; path=/";
  document.cookie = "manta-console-%(port)s=forged; domain=localhost; path=/";
  const frame = document.createElement("iframe");
  frame.src = console_ + "/";
  document.body.append(frame);
  await new Promise((done) => setTimeout(done, 500));
  await tried("frame", () => frame.contentDocument ? frame.contentDocument.title : "none");
  out.append("done\\n");
})();
</script>"""


async def test_a_malicious_dashboard_reads_nothing_of_the_console(tmp_path: Path) -> None:
    page_of: dict[str, bytes] = {}

    def ray(request: Request) -> tuple[int, Mapping[str, str], bytes]:
        if request.path.endswith("/worker.js"):
            return 200, {"content-type": "text/javascript"}, b"// outlives its cluster"
        return 200, {"content-type": "text/html", "cache-control": "max-age=999"}, page_of["attack"]

    async with dashboard_console(ray) as console, browser(tmp_path, {}) as [page]:
        await ready_cluster(console.plane.client, "demo")
        await ready_cluster(console.plane.client, "second")
        page_of["attack"] = (
            ATTACK
            % {"console": console.url, "other": console.address("second"), "port": console.port}
        ).encode()
        await page.open(console.link(), "second")
        text = await page.open(f"{console.url}/rayclusters/default/demo/dashboard", "done")
        said = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        assert said == {
            "cookies": "none",
            "console": "failed",
            "opaque": "failed",
            "api": "failed",
            "other": "failed",
            "delete": "failed",
            "opener": "none",
            "worker": "failed",
            "own write": "403",
            "frame": "none",
        }
        found = await page.call("Runtime.evaluate", expression="location.href")
        assert "ticket" not in found["result"]["value"]
        cached = "fetch('/').then((one) => one.headers.get('cache-control'))"
        assert await page.run(cached) == "private, no-cache"
        assert all("ticket" not in one.path and not one.query for one in console.asked)
        asked = [one.path.partition("/proxy/")[2] for one in console.asked]
        assert not [one for one in asked if one.startswith("static/")]  # no part of our pages
        await page.open(f"{console.url}/rayclusters/default/demo", "demo")  # still logged in
