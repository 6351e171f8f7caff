"""Methods whose results an object remembers."""

from dataclasses import dataclass, field

from tilewright.common.remembered import remembered


@dataclass(frozen=True, eq=False)
class Squares:
    asked: list[tuple[int, int]] = field(default_factory=list)

    @remembered
    def of(self, number: int, added: int = 0) -> int:
        """The square of a number."""
        self.asked.append((number, added))
        return number * number + added


def test_a_result_is_found_once_for_its_arguments():
    squares = Squares()
    assert [squares.of(3), squares.of(3), squares.of(4, 1), squares.of(4, added=1)] == [
        9,
        9,
        17,
        17,
    ]
    assert squares.asked == [(3, 0), (4, 1), (4, 1)]


def test_each_object_has_results_of_its_own():
    one, other = Squares(), Squares()
    assert one.of(3) == other.of(3) == 9
    assert one.asked == other.asked == [(3, 0)]


def test_what_is_named_and_documented_stays_so():
    assert (Squares.of.__name__, Squares.of.__doc__) == ("of", "The square of a number.")
