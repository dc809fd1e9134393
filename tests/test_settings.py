"""Settings that are wrong are named in a sentence, before anything is loaded."""

import pytest

from settings import BadSettings, read_settings


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--chunk-tokens", "512", "--chunk-overlap", "600"], "--chunk-overlap 600 must be below --chunk-tokens 512"),
        (["--port", "99999"], "--port: Input should be less than or equal to 65535"),
        (["--dtype", "fp99"], "--dtype: Input should be 'auto', 'bf16' or 'fp32'"),
        (["--disk-gib", "-1"], "--disk-gib: Input should be greater than 0"),
    ],
)
def test_a_setting_outside_its_range_is_named_with_what_it_may_be(arguments, said):
    with pytest.raises(BadSettings) as caught:
        read_settings(arguments)
    assert said in str(caught.value) and "--help" in str(caught.value)


def test_settings_come_from_the_command_line():
    assert read_settings(["--port", "7871", "--dtype", "fp32", "--no-samples"]).port == 7871
