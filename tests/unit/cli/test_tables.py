"""Tables as people know them from kubectl."""

from __future__ import annotations

from manta.api.text import bytes_text
from manta.cli.output.tables import server_table, table


def test_columns_are_as_wide_as_their_longest_cell() -> None:
    assert table(("NAME", "N"), [("a-long-name", 1), ("b", 22)]) == (
        "NAME          N\na-long-name   1\nb             22"
    )


def test_a_server_table_hides_what_is_only_for_wide() -> None:
    document = {
        "columnDefinitions": [{"name": "Name"}, {"name": "IP", "priority": 1}],
        "rows": [{"cells": ["p", "10.0.0.1"], "object": {"metadata": {"namespace": "ns"}}}],
    }
    assert server_table(document) == "NAME\np"
    assert server_table(document, wide=True) == "NAME   IP\np      10.0.0.1"
    assert server_table(document, namespaces=True) == "NAMESPACE   NAME\nns          p"


def test_a_column_of_ours_comes_last_and_belongs_to_its_row() -> None:
    def row(namespace: str) -> dict[str, object]:
        return {"cells": ["p"], "object": {"metadata": {"name": "p", "namespace": namespace}}}

    document = {"columnDefinitions": [{"name": "Name"}], "rows": [row("a"), row("b")]}
    reported = server_table(document, namespaces=True, more=("WAITS FOR", {("b", "p"): "its head"}))
    assert reported == "NAMESPACE   NAME   WAITS FOR\na           p\nb           p      its head"


def test_sizes_are_reported_in_binary_units() -> None:
    assert [bytes_text(n) for n in (1, 1536, 3 * 1024**3)] == ["1 B", "1.5 KiB", "3.0 GiB"]
