"""Print objects.yaml as one JSON object per line, for `go run .`."""

from __future__ import annotations

import json
from pathlib import Path

import yaml


class _Plain(yaml.SafeLoader):
    """Times stay text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the name and the form are PyYAML's
        first: [(tag, pattern) for tag, pattern in known if not tag.endswith(":timestamp")]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


for document in yaml.load_all(Path(__file__).with_name("objects.yaml").read_text(), Loader=_Plain):
    print(json.dumps(document))
