import unittest

from tally.money import AmountError, format_amount, parse_amount, percentage, total


class ParseAmount(unittest.TestCase):
    def test_whole_amounts(self):
        self.assertEqual(parse_amount("12"), 1200)
        self.assertEqual(parse_amount("1,250"), 125000)

    def test_one_or_two_decimals(self):
        self.assertEqual(parse_amount("12.5"), 1250)
        self.assertEqual(parse_amount("12.05"), 1205)

    def test_negative_amounts(self):
        self.assertEqual(parse_amount("-3.20"), -320)
        self.assertEqual(parse_amount("-12"), -1200)

    def test_negative_amounts_below_one(self):
        self.assertEqual(parse_amount("-0.50"), -50)
        self.assertEqual(parse_amount("-0.05"), -5)

    def test_other_texts_are_refused(self):
        for text in ("", "-", "1.234", "12 euros", "$3"):
            with self.subTest(text=text), self.assertRaises(AmountError):
                parse_amount(text)


class FormatAmount(unittest.TestCase):
    def test_two_decimals_and_commas(self):
        self.assertEqual(format_amount(5), "0.05")
        self.assertEqual(format_amount(123456789), "1,234,567.89")

    def test_signs(self):
        self.assertEqual(format_amount(-50), "-0.50")
        self.assertEqual(format_amount(50, plus=True), "+0.50")
        self.assertEqual(format_amount(0, plus=True), "0.00")

    def test_what_is_written_can_be_read(self):
        for cents in (0, 7, 99, 100, 123456, -1, -99, -100, -123456):
            with self.subTest(cents=cents):
                self.assertEqual(parse_amount(format_amount(cents)), cents)


class Sums(unittest.TestCase):
    def test_total_of_texts(self):
        self.assertEqual(total(["1.10", "2.20", "-3.30"]), 0)

    def test_percentage(self):
        self.assertEqual(percentage(1, 3), "33.3%")
        self.assertEqual(percentage(1, 0), "-")


if __name__ == "__main__":
    unittest.main()
