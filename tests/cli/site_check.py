"""docs/check_site.py finds what a site must not have. Usage: site_check.py SOURCE_DIR"""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import zlib

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
GOOD = '<link rel="stylesheet" href="a.css"><img src="_images/a.png" alt="Variance over depth"><a href="https://x.org/">x</a>'


class SiteCheck(unittest.TestCase):
    def check(self, page, *objects, style="p { color: red }"):
        """Exit code and answer for a site of one page."""
        with tempfile.TemporaryDirectory() as folder:
            site = pathlib.Path(folder)
            (site / "README.html").write_text(page)
            (site / "a.css").write_text(style)
            header = b"# Sphinx inventory version 2\n# Project: x\n# Version: 1\n# zlib\n"
            listed = b"periscope.open py:function 1 README.html#$ -\na-heading std:label -1 README.html#x X\n"
            (site / "objects.inv").write_bytes(header + zlib.compress(listed))
            done = subprocess.run([sys.executable, SOURCE / "docs" / "check_site.py", folder, *objects],
                                  capture_output=True, text=True)  # fmt: skip
            self.assertEqual(done.stderr, "")
            return done.returncode, done.stdout

    def test_a_good_site_passes(self):
        self.assertEqual(self.check(GOOD, "periscope.open")[0], 0)
        self.assertEqual(self.check(GOOD + '<link rel="canonical" href="https://x.org/">')[0], 0)

    def test_figures_need_a_text(self):
        for figure in ('<img src="_images/b.png">', '<img src="_images/b.png" alt=" ">',
                       '<img src="../_images/b.png" alt="experiments/figures/b.png">'):
            code, said = self.check(GOOD + figure)
            self.assertEqual((code, said.count("\n")), (1, 1), figure)
            self.assertIn("b.png", said)

    def test_nothing_comes_from_a_network(self):
        for part in ('<script src="https://x.org/a.js"></script>', '<link rel="stylesheet" href="//x.org/a.css">',
                     '<link rel="preconnect" href="https://x.org">', '<p style="background: url(http://x.org/a.png)">',
                     '<img alt="A figure" src="http://x.org/a.png">', '<iframe src="https://x.org"></iframe>'):
            code, said = self.check(GOOD + part)
            self.assertEqual((code, "x.org" in said), (1, True), part)
        for style in ("@import 'https://x.org/a.css';", "p { background: url(//x.org/a.woff2) }"):
            self.assertEqual(self.check(GOOD, style=style)[0], 1, style)

    def test_names_have_to_be_documented(self):
        code, said = self.check(GOOD, "periscope.open", "periscope.plot", "a-heading")
        self.assertEqual((code, said), (1, "a-heading is not documented\nperiscope.plot is not documented\n"))

    def test_an_empty_site_does_not_pass(self):
        self.assertEqual(self.check("<p>x</p>")[0], 1)


if __name__ == "__main__":
    unittest.main()
