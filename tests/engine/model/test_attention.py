"""torch's attention, as `attend` calls it."""

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from engine.model.attention import attend
from tests.support.tolerance import EXACT


def test_the_result_does_not_depend_on_the_memory_layout_of_torchs_output(monkeypatch):
    """torch's memory-efficient attention, which fp32 uses on GPUs, returns heads as the inner dimension."""
    torch.manual_seed(0)
    query, keys, values = (torch.randn(1, heads, rows, 8) for heads, rows in ((4, 1), (2, 5), (2, 5)))
    expected = attend(query, keys, values, 0.5, None)
    contiguous = F.scaled_dot_product_attention

    def heads_inside(*args, **kwargs):
        return contiguous(*args, **kwargs).transpose(1, 2).contiguous().transpose(1, 2)

    monkeypatch.setattr(F, "scaled_dot_product_attention", heads_inside)
    assert_close(attend(query, keys, values, 0.5, None), expected, **EXACT)
