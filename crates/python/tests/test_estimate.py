"""Figures with intervals: arithmetic that makes sense, and what is refused."""

from __future__ import annotations

import copy
import dataclasses
import operator
import pickle
from typing import Any

import numpy as np
import pytest

import perforate
from perforate import Estimate

SPEED = Estimate(1.26416, 0.0021)


def test_an_interval_has_two_ends() -> None:
    assert (SPEED.low, SPEED.high) == (1.26416 - 0.0021, 1.26416 + 0.0021)
    assert Estimate(2.0).low is None and Estimate(2.0).high is None
    assert float(SPEED) == SPEED.value


def test_it_is_written_with_the_digits_that_are_known() -> None:
    assert repr(SPEED) == str(SPEED) == f"{SPEED}" == "1.264 ± 0.002"
    assert f"{SPEED:.2f}" == "1.26"
    for estimate, text in [
        (Estimate(1.0, 0.0), "1 ± 0"),
        (Estimate(2.5), "2.5"),
        (Estimate(123.4, 17.0), "123 ± 17"),
        (Estimate(0.9996, 0.0044), "1.000 ± 0.004"),
    ]:
        assert repr(estimate) == text


def test_it_is_scaled_and_shifted_by_numbers() -> None:
    assert SPEED * 2 == 2 * SPEED == Estimate(2 * 1.26416, 0.0042)
    assert SPEED * -1 == -SPEED and (-SPEED).half_width == 0.0021
    assert SPEED / 2 == SPEED * 0.5
    assert (SPEED - 1).value == pytest.approx(0.26416) and (SPEED - 1).half_width == 0.0021
    assert (1 - SPEED).value == pytest.approx(-0.26416) and 1 + SPEED == SPEED + 1
    assert np.float64(2) * SPEED == SPEED * np.int64(2) == 2 * SPEED
    assert Estimate(1.5) * 2 == Estimate(3.0)


def test_it_is_compared_by_its_figure() -> None:
    assert SPEED > 1 and SPEED < 1.3 and SPEED >= 1.26416 and 1.3 >= SPEED
    assert SPEED < Estimate(1.3, 0.5) and max([SPEED, Estimate(1.3)]) == Estimate(1.3)
    assert Estimate(1.0, 0.0) == 1.0 and Estimate(1.0, 0.1) != Estimate(1.0, 0.2)
    assert hash(Estimate(1.0, 0.1)) == hash(1.0)
    assert SPEED != "1.264 ± 0.002"


@pytest.mark.parametrize("act", [operator.truediv, operator.mul, operator.add, operator.sub])
def test_two_estimates_are_paired(act: Any) -> None:
    with pytest.raises(TypeError, match=r"speed_over\(.*\.value"):
        act(SPEED, Estimate(1.1, 0.1))


def test_it_is_no_sequence_and_does_not_change() -> None:
    untyped: Any = SPEED
    with pytest.raises(TypeError):
        _mean, _half = untyped
    with pytest.raises(TypeError, match="no symmetric interval"):
        1 / untyped
    for other in ["2", None, [2], np.array([1.0, 2.0])]:
        with pytest.raises(TypeError):
            untyped * other
    with pytest.raises(dataclasses.FrozenInstanceError):
        untyped.value = 2.0
    assert copy.deepcopy(SPEED) == pickle.loads(pickle.dumps(SPEED)) == SPEED


def test_any_two_schemes_are_compared_by_pairs(short: perforate.Comparison) -> None:
    over = short["thp"].speed_over("4k")
    assert over == short["thp"].speed == short["thp"].speed_over(short["4k"])
    inverse = short["4k"].speed_over("thp")
    assert over is not None and inverse is not None
    assert inverse.value == pytest.approx(1 / over.value)
    with pytest.raises(KeyError, match="did you mean thp"):
        short["4k"].speed_over("tph")
