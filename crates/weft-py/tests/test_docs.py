"""The examples of docs/python.md are run, in its order, in one program."""

import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "python.md"


def test_examples(server, tmp_path):
    """Every example of the page does what it says."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 4
    program = tmp_path / "examples.py"
    program.write_text("\n".join(blocks).replace("fs.example.org", server))
    subprocess.run([sys.executable, program], check=True, timeout=120)
