"""README names every kind of machine that is shipped."""

from pathlib import Path

from tilewright.machine import list_machines, load_machine

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_each_family_is_there_with_one_of_its_machines():
    families: dict[str, list[str]] = {}
    for name in list_machines():
        families.setdefault(load_machine(name).target, []).append(name)
    missing = [names for names in families.values() if not any(f"`{n}`" in README for n in names)]
    assert missing == []
