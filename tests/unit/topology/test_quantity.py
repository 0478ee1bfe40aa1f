"""Kubernetes quantities: exact amounts, canonical text, and what the kubelet can read as an int64."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError
from numaudit.topology.quantity import (
    MAX_INT64,
    Quantity,
    at_most,
    eviction_threshold,
    exact,
    node_allocatable_reservation,
    total,
)

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3", "e+2"]


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("1n", 1),
        ("1u", 10**3),
        ("1m", 10**6),
        ("1", 10**9),
        ("1k", 10**12),
        ("1M", 10**15),
        ("1G", 10**18),
        ("1T", 10**21),
        ("1P", 10**24),
        ("1E", 10**27),
        ("1Ki", 2**10 * 10**9),
        ("1Mi", 2**20 * 10**9),
        ("1Gi", 2**30 * 10**9),
        ("1Ti", 2**40 * 10**9),
        ("1Pi", 2**50 * 10**9),
        ("1Ei", 2**60 * 10**9),
        ("1e3", 10**12),
        ("1E3", 10**12),
        ("1e-3", 10**6),
        ("1.5Gi", 3 * 2**29 * 10**9),
        (".5", 5 * 10**8),
        ("5.", 5 * 10**9),
        ("+05", 5 * 10**9),
        ("-2Ki", -2048 * 10**9),
    ],
)
def test_every_suffix_is_exact(text: str, nano: int) -> None:
    assert Quantity.parse(text).nano == nano


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000000Ki", "1000000Ki"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("2000m", "2"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1000k", "1M"),
        ("500M", "500M"),
        ("1000", "1k"),
        ("1e3", "1e3"),
        ("12e4", "120e3"),
        ("0Gi", "0"),
        ("1023", "1023"),
        ("-3Ki", "-3Ki"),
    ],
)
def test_the_canonical_form_has_no_fraction_and_the_largest_suffix(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("200Mi", 209715200),
        ("10Ti", 10 * 2**40),
        ("1E", 10**18),
        ("0", 0),
        ("1e9", 10**9),
        # Longer texts are kept as arbitrary-precision decimals, which the kubelet cannot read as int64.
        ("100Ti", None),
        ("1.5Gi", None),
        ("9223372036854775807", None),
        ("10E", None),
        # A number below 1 in its unit is none either, even when it is whole.
        ("2000m", None),
        ("1500m", None),
    ],
)
def test_only_short_whole_texts_are_an_int64_for_the_kubelet(text: str, number: int | None) -> None:
    assert Quantity.parse(text).as_int64 == number


def test_what_is_finer_than_a_billionth_is_rounded_up() -> None:
    assert Quantity.parse("0.00000000001").nano == 1
    assert Quantity.parse("-0.00000000001").nano == -1


def test_binary_amounts_stop_at_the_largest_int64() -> None:
    assert Quantity.parse("8Ei").value == MAX_INT64
    assert Quantity.parse("-100Ei").value == -MAX_INT64


def test_whole_units_and_thousandths_are_rounded_up() -> None:
    assert Quantity.parse("1001m").value == 2
    assert Quantity.parse("1001m").milli_value == 1001
    assert Quantity.parse("1u").milli_value == 1
    assert Quantity.parse("-1500m").value == -2


@pytest.mark.parametrize(
    "text", ["", "-", ".", "Ki", "e3", "1 ", " 1", "1ki", "1i", "1e", "1.5.5", "0x1", "1M5", "1+5"]
)
def test_other_text_is_no_quantity(text: str) -> None:
    with pytest.raises(ParseError, match="quantity"):
        Quantity.parse(text)


@pytest.mark.parametrize("text", ["٣", "1e101", "1e99999999999", "9" * 300])
def test_foreign_digits_and_monsters_are_refused_at_once(text: str) -> None:
    with pytest.raises(ParseError, match="quantity"):
        Quantity.parse(text)


def test_a_sum_is_written_in_the_form_of_its_first_part_that_is_not_zero() -> None:
    assert str(total([Quantity.parse("100Mi"), Quantity.parse("100M")])) == "204857600"
    assert str(total([Quantity.parse("0"), Quantity.parse("1Gi"), Quantity.parse("1Gi")])) == "2Gi"
    assert str(total([Quantity.parse("500M"), Quantity.parse("500M")])) == "1G"
    assert str(total([])) == "0"


def test_a_sum_beyond_int64_is_no_int64() -> None:
    assert (Quantity.parse("5E") + Quantity.parse("4E")).as_int64 == 9 * 10**18
    assert (Quantity.parse("5E") + Quantity.parse("5E")).as_int64 is None


def parsed(**amounts: str) -> dict[str, Quantity]:
    return {name.replace("_", "-"): Quantity.parse(text) for name, text in amounts.items()}


def test_the_node_keeps_kube_system_and_hard_eviction_from_pods() -> None:
    kept = node_allocatable_reservation(
        parsed(cpu="8", memory="4Gi", hugepages_2Mi="64Mi"),
        system_reserved=parsed(cpu="250m", memory="100Mi"),
        kube_reserved=parsed(cpu="250m", memory="100Mi"),
        hard_eviction_memory="100Mi",
    )
    assert {name: str(amount) for name, amount in kept.items()} == {"cpu": "500m", "memory": "300Mi"}


def test_a_resource_the_node_lacks_is_not_kept() -> None:
    kept = node_allocatable_reservation(
        parsed(memory="4Gi"),
        system_reserved=parsed(hugepages_1Gi="1Gi"),
        kube_reserved={},
        hard_eviction_memory=None,
    )
    assert kept == {}


def test_an_eviction_percentage_is_of_the_capacity_in_the_kubelets_32_bit_float() -> None:
    assert eviction_threshold("5%", 16 * 2**30).value == int(16 * 2**30 * 0.05000000074505806)
    assert eviction_threshold("1Gi", 1).value == 2**30
    for text in ("x%", "-1%", "101%", "nan%"):
        with pytest.raises(ParseError, match="percentage"):
            eviction_threshold(text, 1)


@pytest.mark.parametrize(
    "text", [" 5%", "5 %", "5% ", "٥%", "5\n%", "_5%", "5_%", "1__0%", "%", "0x10%", "nan%", "inf%"]
)
def test_a_percentage_is_a_number_without_spaces_in_plain_digits(text: str) -> None:
    with pytest.raises(ParseError, match=r"percentage|quantity"):
        eviction_threshold(text, 1000)


@pytest.mark.parametrize(
    ("text", "amount"), [("+5%", 50), ("5.%", 50), (".5%", 4), ("5e1%", 500), ("1_0%", 100), ("5%%", 50)]
)
def test_a_percentage_may_be_written_in_all_ways_of_a_go_number(text: str, amount: int) -> None:
    assert eviction_threshold(text, 1000).value == amount


def test_a_threshold_of_0_or_100_percent_is_no_threshold() -> None:
    assert eviction_threshold("0%", 1000).value == 0
    assert eviction_threshold("100%", 1000).value == 0
    assert eviction_threshold("99%", 1000).value == 990


@pytest.mark.parametrize("text", ["0", "0Mi", "-1Mi"])
def test_a_threshold_in_bytes_is_positive(text: str) -> None:
    with pytest.raises(ParseError, match="must be positive"):
        eviction_threshold(text, 1000)


@given(st.integers(-(10**12), 10**12), st.sampled_from(SUFFIXES))
def test_the_canonical_form_is_the_same_amount(number: int, suffix: str) -> None:
    quantity = Quantity.parse(f"{number}{suffix}")
    if abs(quantity.nano) < MAX_INT64 * 10**9:
        assert Quantity.parse(str(quantity)).nano == quantity.nano


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_adding_adds(left: int, right: int) -> None:
    assert (Quantity.of(left) + Quantity.of(right)).value == left + right


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        Quantity.parse(text)
    except ParseError as error:
        assert "quantity" in str(error)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 bytes"),
        (9, "9 bytes"),
        (-9, "-9 bytes"),
        (1024, "1Ki"),
        (1 << 30, "1Gi"),
        (-(8 << 20), "-8Mi"),
        (3 << 29, "1.5Gi (1610612736 bytes)"),
        ((1 << 30) + 1, "1.0Gi (1073741825 bytes)"),
        (1055182848, "1006Mi (1055182848 bytes)"),
    ],
)
def test_an_amount_that_its_unit_rounds_has_its_bytes_too(value: int, text: str) -> None:
    assert exact(value) == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (1023, "1023"),
        (1 << 20, "1Mi"),
        (786_419_712, "749Mi"),
        (3 << 29, "1.5Gi"),
        ((100 << 20) - 1, "99.9Mi"),
    ],
)
def test_the_most_that_there_is_is_rounded_down(value: int, shown: str) -> None:
    assert at_most(value) == shown


@given(st.integers(0, 1 << 60))
def test_what_is_shown_as_the_most_is_no_more_than_there_is(value: int) -> None:
    """A container that asks for it is not refused."""
    assert Quantity.parse(at_most(value)).value <= value
