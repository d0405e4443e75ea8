import unittest
from datetime import date

from tally.journal import Expense
from tally.recurring import Recurrence, add_months, next_due, occurrences, repeat

MONTHLY = Recurrence(months=1)


class AddMonths(unittest.TestCase):
    def test_over_the_end_of_a_year(self):
        self.assertEqual(add_months(date(2023, 11, 15), 3), date(2024, 2, 15))

    def test_short_months_give_their_last_day(self):
        self.assertEqual(add_months(date(2023, 1, 31), 1), date(2023, 2, 28))
        self.assertEqual(add_months(date(2024, 1, 31), 1), date(2024, 2, 29))


class Occurrences(unittest.TestCase):
    def test_every_other_week(self):
        days = list(occurrences(date(2024, 1, 1), Recurrence(weeks=2), until=date(2024, 1, 31)))
        self.assertEqual(days, [date(2024, 1, 1), date(2024, 1, 15), date(2024, 1, 29)])

    def test_every_quarter(self):
        days = list(occurrences(date(2024, 1, 10), Recurrence(months=3), until=date(2024, 7, 10)))
        self.assertEqual(days, [date(2024, 1, 10), date(2024, 4, 10), date(2024, 7, 10)])

    def test_the_last_day_of_each_month(self):
        days = list(occurrences(date(2024, 1, 31), MONTHLY, until=date(2024, 5, 31)))
        self.assertEqual(
            days, [date(2024, 1, 31), date(2024, 2, 29), date(2024, 3, 31), date(2024, 4, 30), date(2024, 5, 31)]
        )

    def test_the_thirtieth_comes_back_after_february(self):
        days = list(occurrences(date(2023, 1, 30), MONTHLY, until=date(2023, 4, 30)))
        self.assertEqual(days, [date(2023, 1, 30), date(2023, 2, 28), date(2023, 3, 30), date(2023, 4, 30)])

    def test_nothing_after_the_end(self):
        self.assertEqual(list(occurrences(date(2024, 2, 1), MONTHLY, until=date(2024, 1, 31))), [])

    def test_either_months_or_weeks(self):
        for months, weeks in ((0, 0), (1, 1), (-1, 0)):
            with self.subTest(months=months, weeks=weeks), self.assertRaises(ValueError):
                Recurrence(months=months, weeks=weeks)


class Repeat(unittest.TestCase):
    def test_an_expense_once_a_month(self):
        rent = Expense(date(2024, 1, 1), "anna", 93000, "rent")
        self.assertEqual([e.day.month for e in repeat(rent, MONTHLY, until=date(2024, 3, 31))], [1, 2, 3])

    def test_the_next_day_due(self):
        self.assertEqual(next_due(date(2024, 1, 31), MONTHLY, after=date(2024, 3, 30)), date(2024, 3, 31))
        self.assertEqual(next_due(date(2024, 1, 1), Recurrence(weeks=1), after=date(2024, 1, 8)), date(2024, 1, 15))


if __name__ == "__main__":
    unittest.main()
