import unittest

from tally.sharing import split_by_weight, split_evenly


class SplitEvenly(unittest.TestCase):
    def test_what_divides_evenly(self):
        self.assertEqual(split_evenly(900, ["anna", "ben", "cleo"]), {"anna": 300, "ben": 300, "cleo": 300})

    def test_no_cent_is_lost(self):
        for cents in (1000, 1001, 1, 0, -50, -1000):
            with self.subTest(cents=cents):
                self.assertEqual(sum(split_evenly(cents, ["anna", "ben", "cleo"]).values()), cents)

    def test_shares_differ_by_one_cent_at_most(self):
        shares = split_evenly(1001, ["anna", "ben", "cleo"])
        self.assertEqual(shares, {"anna": 334, "ben": 334, "cleo": 333})

    def test_somebody_must_share(self):
        with self.assertRaises(ValueError):
            split_evenly(100, [])


class SplitByWeight(unittest.TestCase):
    def test_twice_as_much(self):
        self.assertEqual(split_by_weight(900, {"anna": 2, "ben": 1}), {"anna": 600, "ben": 300})

    def test_the_rest_goes_to_who_lost_most(self):
        self.assertEqual(split_by_weight(100, {"anna": 1, "ben": 1, "cleo": 1}), {"anna": 34, "ben": 33, "cleo": 33})
        self.assertEqual(split_by_weight(100, {"anna": 1, "ben": 5}), {"anna": 17, "ben": 83})

    def test_weights_of_nothing_are_refused(self):
        with self.assertRaises(ValueError):
            split_by_weight(100, {"anna": 0})


if __name__ == "__main__":
    unittest.main()
