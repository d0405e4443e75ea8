from examples.chance import chance


def test_the_same_thing_is_drawn_the_same_and_another_is_not() -> None:
    assert chance(1, "words", 2).random() == chance(1, "words", 2).random()
    assert len({chance(1, "words", 2).random(), chance(2, "words", 2).random(), chance(1, "words", 3).random()}) == 3
