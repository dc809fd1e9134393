"""Fixtures that several folders share."""

import pytest
import torch

from tests import tiny


@pytest.fixture(params=tiny.FAMILIES, ids=lambda build: build.__name__)
def family(request):
    """A builder of one supported kind of model; `tiny.model(family)` twice gives equal models."""
    return request.param


@pytest.fixture(autouse=True)
def _two_threads():
    torch.set_num_threads(2)
