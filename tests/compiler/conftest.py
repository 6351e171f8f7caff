"""Shipped targets are found whether or not the package is installed."""

import pytest

from support.installed import ensure_installed


@pytest.fixture(scope="session", autouse=True)
def installed(tmp_path_factory):
    ensure_installed(tmp_path_factory.mktemp("metadata"))
