"""qwenrun and qwen-plan refuse plans that are cut, changed or not for them."""

import random
import unittest

from cli_testing import CliTest, build_plan, run, token_tensors, write_tokens

TRAILER = 16  # "QWPLHASH" and the hash


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def with_hash(body):
    """The body with a trailer that fits it."""
    return body + b"QWPLHASH" + fnv1a(body).to_bytes(8, "little")


class BadPlans(CliTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build_plan(cls.shared / "good.fb")
        cls.plan = (cls.shared / "good.fb").read_bytes()
        cls.body = cls.plan[:-TRAILER]
        write_tokens(cls.shared / "data", token_tensors([20, 30]))

    def write(self, content):
        (self.folder / "plan.fb").write_bytes(content)

    def refused(self, content, *says):
        self.write(content)
        line = self.run_bad(
            "qwenrun", "plan.fb", "--init", "random", "--data",
            self.shared / "data", "--out", "out", says=("plan.fb", *says))
        return line

    def test_the_hash_is_understood(self):
        self.assertEqual(with_hash(self.body), self.plan)

    def test_empty(self):
        self.refused(b"", "not a plan", "0 bytes")

    def test_missing_file_and_folder(self):
        self.run_bad("qwenrun", "none.fb", "--info", says="none.fb")
        self.run_bad("qwenrun", self.folder, "--info", says=str(self.folder))

    def test_other_file(self):
        self.refused(b"module {}\n" * 100, "QWPL")

    def test_cut(self):
        for size in (1, 7, 8, 23, 24, 100, len(self.plan) // 2,
                     len(self.plan) - TRAILER, len(self.plan) - 1):
            with self.subTest(size=size):
                self.refused(self.plan[:size], "plan")

    def test_longer(self):
        self.refused(self.plan + b"\0", "end mark")

    def test_any_flipped_bit_is_found(self):
        generator = random.Random(1)
        places = [0, 4, len(self.body), len(self.plan) - 1]
        places += [generator.randrange(len(self.plan)) for _ in range(20)]
        for place in places:
            with self.subTest(place=place):
                content = bytearray(self.plan)
                content[place] ^= 1 << generator.randrange(8)
                self.refused(bytes(content))

    def test_crafted_plans_never_crash_the_reader(self):
        """Changed bytes with a hash that fits: an error or a valid plan."""
        generator = random.Random(2)
        refused = 0
        for _ in range(120):
            content = bytearray(self.body)
            for _ in range(generator.randint(1, 4)):
                place = generator.randrange(len(content)) // 4 * 4
                value = generator.choice(
                    [0, 1, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000])
                content[place:place + 4] = value.to_bytes(4, "little")
            self.write(with_hash(bytes(content[:len(self.body)])))
            done = run("qwen-plan", self.folder / "plan.fb")
            self.assertIn(done.returncode, (0, 1), done.stderr)
            if done.returncode == 1:
                refused += 1
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        # Machine code and spare room take changes; tables do not.
        self.assertGreater(refused, 10)

    def test_other_target(self):
        target = b"x86-64-v3"
        counted = len(target).to_bytes(4, "little") + target
        self.assertEqual(self.body.count(counted), 2)  # plan and its code
        for other in (b"aarch64-1", b"sm_90-ptx", b"x86-64-v9"):
            with self.subTest(target=other):
                body = self.body.replace(counted, counted[:4] + other)
                self.refused(with_hash(body), other.decode())

    def test_target_of_code_differs_from_the_plan(self):
        target = (9).to_bytes(4, "little") + b"x86-64-v3"
        last = self.body.rindex(target)
        body = (self.body[:last] + target[:4] + b"x86-64-v2" +
                self.body[last + len(target):])
        self.refused(with_hash(body), "x86-64-v2")


if __name__ == "__main__":
    unittest.main()
