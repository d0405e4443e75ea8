import unittest
from datetime import date

from tally.journal import Expense
from tally.report import paid, table, transfers

DAY = date(2024, 3, 1)


class Table(unittest.TestCase):
    def test_columns_are_as_wide_as_their_widest_cell(self):
        self.assertEqual(table(["who", "paid"], [["anna", "1.00"], ["b", "100.00"]]).splitlines(), [
            "who     paid",
            "----  ------",
            "anna    1.00",
            "b     100.00",
        ])  # fmt: skip


class Report(unittest.TestCase):
    def test_what_each_person_paid(self):
        text = paid([Expense(DAY, "anna", 1000, "dinner", ("anna", "ben", "cleo"))])
        self.assertEqual(text.splitlines()[2].split(), ["anna", "10.00", "100.0%", "+6.66"])

    def test_transfers(self):
        text = transfers([Expense(DAY, "anna", 1000, "dinner", ("anna", "ben"))])
        self.assertEqual(text, "ben gives anna 5.00")

    def test_nothing_to_transfer(self):
        self.assertEqual(transfers([Expense(DAY, "anna", 100, "coffee", ("anna",))]), "nobody owes anything")


if __name__ == "__main__":
    unittest.main()
