import unittest
from datetime import date

from tally.journal import Expense
from tally.settlement import Transfer, balances, settle

DAY = date(2024, 3, 1)
EVERYBODY = ["anna", "ben", "cleo"]


class Balances(unittest.TestCase):
    def test_shared_by_everybody(self):
        found = balances([Expense(DAY, "anna", 900, "groceries")], EVERYBODY)
        self.assertEqual(found, {"anna": 600, "ben": -300, "cleo": -300})

    def test_shared_by_some(self):
        found = balances([Expense(DAY, "anna", 900, "cinema", ("ben", "cleo"))], EVERYBODY)
        self.assertEqual(found, {"anna": 900, "ben": -450, "cleo": -450})

    def test_they_add_up_to_zero(self):
        found = balances([Expense(DAY, "anna", 1000, "dinner"), Expense(DAY, "ben", 101, "bread")], EVERYBODY)
        self.assertEqual(sum(found.values()), 0)


class Settle(unittest.TestCase):
    def test_one_pays_two(self):
        self.assertEqual(
            settle({"anna": 300, "ben": 200, "cleo": -500}),
            [Transfer("cleo", "anna", 300), Transfer("cleo", "ben", 200)],
        )

    def test_nobody_owes_anything(self):
        self.assertEqual(settle({"anna": 0, "ben": 0}), [])

    def test_balances_that_do_not_add_up_are_refused(self):
        with self.assertRaises(ValueError):
            settle({"anna": 1, "ben": 0})


if __name__ == "__main__":
    unittest.main()
