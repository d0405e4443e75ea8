import unittest
from datetime import date

from tally.journal import Expense, JournalError, people, read_journal, strip_comment


class ReadJournal(unittest.TestCase):
    def test_a_plain_line(self):
        (expense,) = read_journal(['2024-03-01 anna 42.00 "groceries"'])
        self.assertEqual(expense, Expense(date(2024, 3, 1), "anna", 4200, "groceries"))

    def test_sharers(self):
        (expense,) = read_journal(['2024-03-01 anna 42.00 "groceries" anna,ben'])
        self.assertEqual(expense.sharers, ("anna", "ben"))

    def test_blank_lines_and_comments_are_skipped(self):
        self.assertEqual(read_journal(["", "   ", "# nothing to see", "   # nor here"]), [])

    def test_a_comment_at_the_end_of_a_line(self):
        (expense,) = read_journal(['2024-03-01 anna 42.00 "groceries" anna,ben   # two of us'])
        self.assertEqual(expense.sharers, ("anna", "ben"))

    def test_a_number_sign_in_a_description(self):
        (expense,) = read_journal(['2024-03-01 anna 930.00 "rent, flat #3"  # the "big" one'])
        self.assertEqual(expense.description, "rent, flat #3")

    def test_oldest_first(self):
        lines = ['2024-03-02 ben 1.00 "b"', '2024-03-01 anna 1.00 "a"', '2024-03-02 anna 1.00 "c"']
        self.assertEqual([expense.description for expense in read_journal(lines)], ["a", "b", "c"])

    def test_a_line_that_cannot_be_read_is_named(self):
        for line in ("yesterday anna 1.00 beer", '2024-02-30 anna 1.00 "beer"', '2024-02-03 anna 1.001 "beer"'):
            with self.subTest(line=line), self.assertRaises(JournalError) as caught:
                read_journal(["# a comment", line])
            self.assertEqual(caught.exception.number, 2)


class Comments(unittest.TestCase):
    def test_quotation_marks_protect_number_signs(self):
        self.assertEqual(strip_comment('a "b # c" d # e "f" # g'), 'a "b # c" d ')

    def test_a_line_of_nothing_but_a_comment(self):
        self.assertEqual(strip_comment("# all of it"), "")


class People(unittest.TestCase):
    def test_payers_and_sharers(self):
        expenses = read_journal(['2024-03-01 cleo 1.00 "x" ben,anna', '2024-03-02 dora 1.00 "y"'])
        self.assertEqual(people(expenses), ["anna", "ben", "cleo", "dora"])


if __name__ == "__main__":
    unittest.main()
