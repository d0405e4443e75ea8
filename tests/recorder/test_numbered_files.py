from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rotoscope.recorder.numbered_files import Numbers, claim, is_being_written
from rotoscope.traces.errors import UnusableInput


def test_first_recording_makes_the_folder_and_is_number_one(tmp_path: Path) -> None:
    place = claim(tmp_path / "new" / "folder")

    assert place.trace == tmp_path / "new" / "folder" / "run-0001.trace.json"
    assert place.journal.read_bytes() == b""


def test_number_follows_the_greatest_one_taken_by_a_trace_or_a_journal(tmp_path: Path) -> None:
    (tmp_path / "run-0003.trace.json").touch()
    (tmp_path / "run-0011.journal.jsonl").touch()
    (tmp_path / "run-x.trace.json").touch()

    assert claim(tmp_path).trace.name == "run-0012.trace.json"


def test_recordings_that_run_at_once_get_different_numbers(tmp_path: Path) -> None:
    first, second = claim(tmp_path), claim(tmp_path)

    assert first.trace != second.trace
    assert first.journal != second.journal


def test_giving_up_leaves_nothing(tmp_path: Path) -> None:
    claim(tmp_path).give_up()

    assert list(tmp_path.iterdir()) == []


def test_folder_that_is_a_file_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()

    with pytest.raises(UnusableInput, match="taken: traces cannot be written here: File exists"):
        claim(tmp_path / "taken")


def test_recordings_that_start_at_the_same_time_get_different_numbers(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        places = list(pool.map(lambda _: claim(tmp_path), range(64)))

    assert len({place.journal for place in places}) == 64


def test_journal_is_being_written_while_it_is_open(tmp_path: Path) -> None:
    place = claim(tmp_path)
    assert not is_being_written(place.journal)

    with place.open_journal():
        assert is_being_written(place.journal)

    assert not is_being_written(place.journal)


def test_place_is_that_of_a_journal_until_somebody_removes_it(tmp_path: Path) -> None:
    place = claim(tmp_path)
    with place.open_journal() as journal:
        assert place.is_of(journal)
        place.give_up()
        assert not place.is_of(journal)
        again = claim(tmp_path)
        assert again == place
        assert not place.is_of(journal)


def test_giving_up_what_is_gone_already_is_no_error(tmp_path: Path) -> None:
    place = claim(tmp_path / "folder")
    place.journal.unlink()
    (tmp_path / "folder").rmdir()

    place.give_up()


def test_numbers_follow_one_another_and_leave_out_those_that_others_took_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "run-0003.trace.json").touch()
    numbers = Numbers(tmp_path)
    first = numbers.claim()
    (tmp_path / "run-0005.trace.json").touch()
    (tmp_path / "run-0006.journal.jsonl").touch()
    first.give_up()

    assert [first.number, numbers.claim().number, numbers.claim().number] == [4, 7, 8]
    assert claim(tmp_path).number == 9


def test_folder_that_went_away_is_made_again_for_the_next_number(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path / "folder")
    numbers.claim().give_up()
    (tmp_path / "folder").rmdir()

    assert numbers.claim().journal.exists()
