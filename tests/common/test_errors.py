"""What a program learns of an error."""

from tilewright.common.errors import TilewrightError


def test_an_error_ends_the_command_line_with_1_and_says_where_and_what_to_do():
    error = TilewrightError("two images", where="x.onnx", fix="take one")
    assert (error.exit_code, error.code) == (1, "error")
    assert str(error) == "x.onnx: two images; take one"
