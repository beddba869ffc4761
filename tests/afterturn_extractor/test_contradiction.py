from afterturn_extractor.contradiction import (
    denies,
    echoes,
    is_about,
    other_number,
    shouts_again,
    states_otherwise,
)


def test_a_word_of_the_reply_as_a_question_echoes_it() -> None:
    assert echoes("Formatted?", "Formatted and mounted.")
    assert not echoes("Paris?", "Formatted and mounted.")
    assert not echoes("Formatted.", "Formatted and mounted.")


def test_a_word_of_the_request_shouted_is_the_request_again() -> None:
    assert shouts_again("Minutes!", "Set a timer for ten minutes.")
    assert not shouts_again("Hooray!", "Set a timer for ten minutes.")


def test_another_number_than_the_replys_contradicts_it() -> None:
    assert other_number("I paid 50.", "Your refund of 5 euros is on its way.")
    assert not other_number("I paid 5.", "Your refund of 5 euros is on its way.")
    assert not other_number("I paid 50.", "Your refund is on its way.")


def test_a_statement_about_what_the_reply_named_contradicts_it() -> None:
    assert states_otherwise("The A4 is closed since Monday.", "Take the A4.")
    assert not states_otherwise("My car is old.", "Take your car.")
    assert not states_otherwise("Is the A4 closed?", "Take the A4.")
    assert denies("Sydney is not the capital.", "Sydney.")
    assert not denies("I am not in Sydney.", "Sydney.")


def test_a_failure_is_about_the_turn_where_nothing_else_is_named() -> None:
    assert is_about("Still crashes.", "I fixed the parser.")
    assert is_about("The parser crashes.", "I fixed the parser.")
    assert not is_about("The server crashes.", "The capital of Peru is Lima.")
