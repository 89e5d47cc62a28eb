"""Quantiles and special functions, held against scipy's."""

from __future__ import annotations

import subprocess
import sys

import pytest
from scipy.special import chdtri, polygamma, psi, stdtrit

from specdec.analysis.distributions import (
    chi_square_quantile,
    digamma,
    inverse_trigamma,
    t_quantile,
    trigamma,
)

DEGREES = (1, 1.3, 2, 2.7, 3.5, 5, 7.7, 19, 60, 200, 200.5, 1e3, 1e4)


@pytest.mark.parametrize("degrees", DEGREES)
@pytest.mark.parametrize("probability", [0.5, 0.8, 0.95, 0.99, 0.99875, 0.99999])
def test_t_quantile(degrees: float, probability: float) -> None:
    expected = float(stdtrit(degrees, probability))
    assert t_quantile(degrees, probability) == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("degrees", DEGREES)
@pytest.mark.parametrize("probability", [0.001, 0.2, 0.8, 0.999])
def test_chi_square_quantile(degrees: float, probability: float) -> None:
    expected = float(chdtri(degrees, 1 - probability))
    assert chi_square_quantile(degrees, probability) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("value", [0.01, 0.3, 0.5, 1.0, 2.5, 40.0, 1e4])
def test_derivatives_of_log_gamma(value: float) -> None:
    assert digamma(value) == pytest.approx(float(psi(value)), rel=1e-12)
    assert trigamma(value) == pytest.approx(float(polygamma(1, value)), rel=1e-12)
    assert inverse_trigamma(trigamma(value)) == pytest.approx(value, rel=1e-10)


def test_judging_loads_no_scipy() -> None:
    code = "import sys, specdec.analysis.judge; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
