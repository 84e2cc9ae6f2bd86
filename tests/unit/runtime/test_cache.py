"""The cache: it never goes back in time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from manta.api.meta import Key, Object, ObjectMeta, ResourceVersion, Uid
from manta.runtime.cache import Cache


def one(name: str, version: int, uid: str = "", **labels: str) -> Object:
    return Object(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=Uid(uid or f"uid-{name}"),
            resource_version=ResourceVersion(str(version)),
            labels=labels,
        )
    )


A = Key("ns", "a")


def test_an_older_object_is_refused() -> None:
    cache: Cache[Object] = Cache()
    cache.put(one("a", 7))
    assert cache.put(one("a", 6)) is None
    assert cache.put(one("a", 7)) is None
    assert cache.put(one("a", 8)) is not None


def test_versions_count_as_numbers_and_not_as_text() -> None:
    cache: Cache[Object] = Cache()
    cache.put(one("a", 9))
    assert cache.put(one("a", 10)) is not None


def test_a_delete_of_a_predecessor_spares_its_successor() -> None:
    cache: Cache[Object] = Cache()
    cache.put(one("a", 8, uid="second"))
    assert cache.remove(A, Uid("first")) is None
    assert cache.get(A) is not None


def test_late_news_of_an_object_found_gone_is_refused() -> None:
    cache: Cache[Object] = Cache()
    cache.put(one("a", 5))
    cache.tombstone(A, Uid("uid-a"))
    assert cache.put(one("a", 6)) is None
    assert cache.get(A) is None
    assert cache.put(one("a", 9, uid="next")) is not None
    cache.remove(A, Uid("next"))
    assert not cache._gone


def test_a_list_brings_deletes_that_nobody_reported_of() -> None:
    cache: Cache[Object] = Cache()
    cache.put(one("a", 1))
    cache.put(one("b", 2))
    changes = cache.replace([one("b", 2), one("c", 3)], listed_at="4")
    assert {(c.old is None, c.key.name, c.new is None) for c in changes} == {
        (False, "a", True),
        (True, "c", False),
    }


def test_a_list_does_not_remove_what_a_live_read_brought_in_after_it() -> None:
    cache: Cache[Object] = Cache()
    cache.put(one("new", 9))
    cache.replace([], listed_at="5")
    assert cache.get(Key("ns", "new")) is not None


def test_where_versions_have_no_order_a_list_removes_what_it_does_not_show() -> None:
    cache: Cache[Object] = Cache()
    cache.put(one("a", 1))
    assert [change.key for change in cache.replace([], listed_at="v2-abc")] == [A]


def test_what_is_forgotten_may_come_back_in_any_version() -> None:
    cache: Cache[Object] = Cache({"all": lambda _one: ("x",)})
    cache.put(one("a", 7))
    cache.tombstone(Key("ns", "b"), Uid("uid-b"))
    [change] = cache.forget()
    assert (change.key, change.new, len(cache), cache.by("all", "x")) == (A, None, 0, ())
    assert cache.put(one("a", 1)) is not None
    assert cache.put(one("b", 2)) is not None


def test_a_list_of_one_namespace_leaves_the_others_alone() -> None:
    cache: Cache[Object] = Cache()
    cache.put(one("a", 1))
    assert cache.replace([], listed_at="9", namespace="elsewhere") == []
    assert cache.get(A) is not None


def test_indexes_follow_changes_and_hold_nothing_dead() -> None:
    cache: Cache[Object] = Cache({"app": lambda o: o.metadata.labels.values()})
    cache.put(one("a", 1, app="x"))
    cache.put(one("b", 2, app="x"))
    cache.put(one("a", 3, app="y"))
    assert [o.metadata.name for o in cache.by("app", "x")] == ["b"]
    assert [o.metadata.name for o in cache.by("app", "y")] == ["a"]
    cache.remove(A)
    cache.remove(Key("ns", "b"))
    assert cache.by("app", "x") == ()
    assert not cache._indexes["app"]._keys


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "tombstone", "replace"]),
        st.sampled_from("abc"),
        st.integers(1, 20),
    ),
    max_size=40,
)


@given(STEPS)
def test_indexes_always_agree_with_the_objects(steps: list[tuple[str, str, int]]) -> None:
    cache: Cache[Object] = Cache({"even": lambda o: [_parity(o)]})
    for step, name, version in steps:
        match step:
            case "put":
                cache.put(one(name, version))
            case "remove":
                cache.remove(Key("ns", name))
            case "tombstone":
                cache.tombstone(Key("ns", name), Uid(f"uid-{name}"))
            case _:
                cache.replace([one(name, version)], listed_at=str(version))
    for parity in ("0", "1"):
        found = {o.metadata.key for o in cache.by("even", parity)}
        assert found == {o.metadata.key for o in cache.all() if _parity(o) == parity}


def _parity(one_: Object) -> str:
    return str(int(one_.metadata.resource_version) % 2)


def test_a_live_list_buries_what_it_does_not_show() -> None:
    cache: Cache[Object] = Cache()
    cache.put(one("a", 5))
    cache.replace([], listed_at="9", tombstone=True)
    assert cache.put(one("a", 6)) is None  # the watch lags, and still tells of it
    assert cache.remove(A, Uid("uid-a")) is None
    assert not cache._gone


def test_an_object_that_an_index_cannot_take_is_counted() -> None:
    cache: Cache[Object] = Cache({"app": lambda o: [o.metadata.labels["app"]]})
    cache.put(one("a", 1))
    assert cache.by("app", "x") == ()
    assert cache.index_failures == 1
    cache.remove(Key("ns", "a"))
    assert cache.index_failures == 1
