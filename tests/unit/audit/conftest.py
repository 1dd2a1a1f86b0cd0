"""What tests of audits share."""

from __future__ import annotations

import pytest

from tests.hosts.audit_records import Records


@pytest.fixture
def records() -> Records:
    return Records()
