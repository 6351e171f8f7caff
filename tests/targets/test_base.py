"""Artifacts are values with safe file names."""

from __future__ import annotations

import pytest

from tilewright.codegen.artifact import Artifact, write_artifact
from tilewright.common.errors import ToolError


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x.c", "a/../../x.c", "", "a//b", ".hidden", "a\nb", "x.c;rm", "ü.c"]
)
def test_a_file_name_cannot_leave_the_folder(name):
    with pytest.raises(ToolError) as caught:
        Artifact("x", "any", {name: ""})
    assert str(caught.value) == (
        f"{name!r} is not a safe file name for generated code; "
        "use relative names of letters, digits, '_', '-' and '.'"
    )


def test_an_artifact_cannot_be_changed():
    artifact = Artifact("x", "any", {"x.c": "int x;\n"})
    with pytest.raises(TypeError):
        artifact.files["y.c"] = ""  # type: ignore[index]  # what the test is about


def test_writing(tmp_path):
    artifact = Artifact("x", "any", {"x.c": "int x;\n", "sub/y.c": "int y;\n"})
    paths = write_artifact(artifact, tmp_path / "out")
    assert [str(p.relative_to(tmp_path)) for p in paths] == ["out/sub/y.c", "out/x.c"]
    assert (tmp_path / "out" / "sub" / "y.c").read_text() == "int y;\n"
