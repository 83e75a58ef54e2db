"""What is guessed at each step: as much as its cost and its chances are worth, and nothing by a guesser that loses, until it would win."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from app.engine.speculation.costs import Costs
from app.engine.speculation.lookup import Lookup
from app.engine.speculation.plan import REST, Chances, Plan


class Fixed(Costs):
    """A machine on which a step takes ``one`` second, and each further row ``more``."""

    def __init__(self, more: float, one: float = 1.0) -> None:
        super().__init__()
        self.learn([{rows: one + (rows - 1) * more for rows in (1, 2, 4)}])

    def took(self, rows: int, seconds: float) -> None:
        """Whatever this machine says."""


def plan(guesser: Any, costs: Costs, **more: Any) -> Plan:
    return Plan(guesser, costs, Chances(), 8, **more)


def write(made: Plan, text: Sequence[int], prompt: Sequence[int] = ()) -> list[int]:
    """Go through a text; how many tokens were checked in each step."""
    steps, ids = [], list(prompt)
    for token in text:
        ids.append(token)
        if not made.arrived(ids):
            steps.append(len(made.next(ids)))
    return steps


def test_prompt_lookup_finds_what_followed_the_longest_stretch_where_it_stood_last() -> None:
    lookup = Lookup(3)
    assert lookup.read([1, 2, 3, 9, 2, 3, 7, 1, 2, 3]) == 3
    assert lookup.guess(3, 3) == [9, 2, 3]
    assert lookup.guess(2, 2) == [7, 1]
    assert lookup.read([1, 2, 3, 9, 2, 3, 7, 1, 2, 3, 8]) == 0


def test_prompt_lookup_goes_round_where_the_text_repeats_itself() -> None:
    lookup = Lookup(2)
    assert lookup.read([5, 1, 2, 1, 2]) == 2
    assert lookup.guess(2, 5) == [1, 2, 1, 2, 1]


@pytest.mark.parametrize(
    ("more", "chance", "fewest", "most"), [(0.1, 0.9, 3, 8), (0.9, 0.9, 0, 0), (0.4, 0.3, 0, 0), (0.3, 0.7, 1, 3)]
)
def test_as_many_are_guessed_as_the_cost_of_checking_them_is_worth(
    more: float, chance: float, fewest: int, most: int
) -> None:
    assert fewest <= Fixed(more).best(chance, 8) <= most


def test_finding_a_guess_has_its_price() -> None:
    costs = Fixed(0.2)
    assert costs.best(0.8, 8) > costs.best(0.8, 8, each=0.2) > costs.best(0.8, 8, each=0.9) == 0


def test_what_steps_take_is_known_whatever_their_rows_when_the_machine_gets_busy() -> None:
    costs = Costs()
    costs.learn([{1: 1.0, 2: 1.2, 4: 1.6}] * 3)
    for _ in range(9):
        costs.took(4, 16.0)
    assert [costs.of(rows) for rows in (1, 2, 4, 8)] == pytest.approx([10, 12, 16, 32])


def test_a_ratio_of_steps_that_was_measured_wrong_is_corrected_by_steps_next_to_each_other() -> None:
    costs = Costs()
    costs.learn([{1: 1.0, 2: 1.9, 4: 3.7}] * 3)
    assert costs.best(0.8, 8) == 0
    for pace in range(1, 60):
        costs.took(1, 1.0 * pace)
        costs.took(3, 1.3 * pace)
        costs.took(1, 1.0 * pace)
    assert costs.shape(3) == pytest.approx(1.3, abs=0.05)
    assert costs.best(0.8, 2) == 2


def test_a_copied_text_takes_few_steps() -> None:
    made = plan(Lookup(2), Fixed(0.2))
    steps = write(made, list(range(40)), prompt=range(40))
    assert len(steps) < 20
    assert made.tokens == 40
    assert made.passes == len(steps)


def test_where_nothing_repeats_nothing_is_guessed() -> None:
    assert set(write(plan(Lookup(2), Fixed(0.2)), range(100))) == {0}


def test_guesses_that_never_come_true_stop_and_come_back_when_they_would() -> None:
    """After every 1 something new comes: the guess of what followed it is always wrong; then the text begins to repeat itself."""
    made = plan(Lookup(1), Fixed(0.3))
    wrong = [token for number in range(60) for token in (1, 100 + number)]
    steps = write(made, wrong)
    assert any(steps[:20])
    assert not any(steps[-40:]), "it rests"
    again = write(made, list(range(1000, 1010)) * 6, prompt=wrong)
    assert any(again[-10:]), "and is back"


def test_a_dry_plan_tells_what_guesses_would_have_saved() -> None:
    copied, new = (plan(Lookup(2), Fixed(0.2), dry=True) for _ in range(2))
    write(copied, list(range(60)), prompt=range(60))
    write(new, range(60))
    assert (copied.gain() or 0) > 1.5
    assert new.gain() == pytest.approx(1.0)


class Wrong:
    """A guesser that costs time and is never right."""

    name, free, each, asked, beginning = "wrong", False, 0.05, 0, 0.0

    def read(self, _ids: Sequence[int]) -> int:
        return 1

    def guess(self, _kind: int, count: int) -> list[int]:
        self.asked += 1
        return [-1] * count

    def end(self) -> None:
        """Nothing to give back."""


def test_a_draft_that_is_never_right_is_only_asked_now_and_then() -> None:
    wrong = Wrong()
    write(plan(wrong, Fixed(0.3)), range(10 * REST))
    assert 2 < wrong.asked < REST


class Late:
    """A guesser that is always right, once it has spent ``beginning`` seconds."""

    name, free, each = "late", False, 0.05

    def __init__(self, beginning: float) -> None:
        self.beginning, self.text = beginning, list[int]()

    def read(self, ids: Sequence[int]) -> int:
        self.text = list(ids)
        return 1

    def guess(self, _kind: int, count: int) -> list[int]:
        self.beginning = 0.0
        return [self.text[-1] + 1 + place for place in range(count)]

    def end(self) -> None:
        """Nothing to give back."""


def test_a_beginning_is_worth_its_time_in_long_replies_only() -> None:
    """A step takes a second, guesses save about half of it per token, and the beginning takes ten."""
    short, long = (write(plan(Late(10.0), Fixed(0.1)), range(length)) for length in (15, 200))
    assert not any(short)
    assert not any(long[:15])
    assert sum(long) > 100


def test_a_beginning_that_takes_no_time_is_made_at_once() -> None:
    assert write(plan(Late(0.0), Fixed(0.1)), range(15))[0] > 0
