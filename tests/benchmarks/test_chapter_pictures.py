"""The pictures of the chapters show the numbers of the pages."""

import re
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[2]


def test_chapters_show_the_numbers_of_their_tables(load, tmp_path):
    pictures = load("asv_bench", pictures="chapter_pictures").pictures
    pictures.main(["--output", str(tmp_path)])
    for name, make in pictures.CHAPTERS.items():
        numbers = escape(make().numbers())
        assert numbers.count(";") >= 8
        for folder in (tmp_path, ROOT / "docs/images"):
            text = (folder / f"{name}.svg").read_text(encoding="utf-8")
            assert numbers in text, f"python {pictures.__file__}"
            assert float(re.search(r'viewBox="0 0 ([\d.]+)', text)[1]) < 300
        page = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
        assert f"](images/{name}.svg)" in page
