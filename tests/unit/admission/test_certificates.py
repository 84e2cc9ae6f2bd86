"""The chain of certificates is renewed in steps, and at every step the shown one is trusted."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from manta.admission.certificates import (
    AUTHORITY_LIFETIME,
    LEAF_LIFETIME,
    Chain,
    InvalidChain,
    next_chain,
)

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
NAMES = ("manta-webhook.ray.svc", "127.0.0.1")


def fresh() -> Chain:
    chain = next_chain(None, NAMES, NOW)
    assert chain is not None
    return chain


def authorities(chain: Chain) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(chain.authorities.encode())


def leaf(chain: Chain) -> x509.Certificate:
    return x509.load_pem_x509_certificate(chain.certificate.encode())


def is_trusted(chain: Chain) -> bool:
    for one in authorities(chain):
        try:
            leaf(chain).verify_directly_issued_by(one)
        except Exception:  # noqa: BLE001
            continue
        return True
    return False


def test_the_first_step_makes_everything_and_then_all_is_well() -> None:
    chain = fresh()
    assert is_trusted(chain)
    assert next_chain(chain, NAMES, NOW) is None
    shown = leaf(chain).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert shown.get_values_for_type(x509.DNSName) == ["manta-webhook.ray.svc"]


def test_the_certificate_is_renewed_in_time_by_the_same_authority() -> None:
    chain = fresh()
    assert next_chain(chain, NAMES, NOW + LEAF_LIFETIME / 2) is None
    renewed = next_chain(chain, NAMES, NOW + LEAF_LIFETIME * 0.7)
    assert renewed is not None
    assert renewed.authorities == chain.authorities
    assert renewed.certificate != chain.certificate
    assert is_trusted(renewed)


def test_another_name_makes_another_certificate() -> None:
    chain = fresh()
    renamed = next_chain(chain, (*NAMES, "other"), NOW)
    assert renamed is not None
    assert renamed.authorities == chain.authorities
    assert next_chain(renamed, (*NAMES, "other"), NOW) is None


def test_a_new_authority_is_announced_before_it_signs() -> None:
    chain, later = fresh(), NOW + AUTHORITY_LIFETIME * 0.7
    announced = next_chain(chain, NAMES, later)
    assert announced is not None
    assert len(authorities(announced)) == 2
    assert announced.certificate == chain.certificate
    assert is_trusted(announced)
    signed = next_chain(announced, NAMES, later)
    assert signed is not None
    leaf(signed).verify_directly_issued_by(authorities(signed)[0])
    assert next_chain(signed, NAMES, later) is None
    assert signed.authorities.endswith(chain.authorities)


def test_an_authority_that_has_expired_is_dropped() -> None:
    chain, later = fresh(), NOW + AUTHORITY_LIFETIME * 0.7
    announced = next_chain(chain, NAMES, later)
    assert announced is not None
    end = NOW + AUTHORITY_LIFETIME + timedelta(days=1)
    steps = 0
    while (following := next_chain(announced, NAMES, end)) is not None:
        announced, steps = following, steps + 1
    assert len(authorities(announced)) == 1
    assert is_trusted(announced)
    assert steps == 2


@pytest.mark.parametrize("field", ["authorities", "certificate", "key", "authority_key"])
def test_what_is_no_certificate_is_said_so(field: str) -> None:
    with pytest.raises(InvalidChain):
        next_chain(replace(fresh(), **{field: "rubbish"}), NAMES, NOW)


@pytest.mark.parametrize("field", ["key", "authority_key"])
def test_anothers_key_is_of_no_use(field: str) -> None:
    with pytest.raises(InvalidChain, match="not that of its certificate"):
        next_chain(replace(fresh(), **{field: getattr(fresh(), field)}), NAMES, NOW)
