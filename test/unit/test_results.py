"""What was measured stands in one form, and the docs say what it says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from bench import harness, pages
from bench.markdown import DOCS
from bench.results import FOLDER, SCHEMA, Results, load

AGAIN = "to write it: python -m bench pages"
VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_results_are_as_the_schema_says(path: Path, tmp_path: Path) -> None:
    VALIDATOR.validate(json.loads(path.read_text()))
    again = tmp_path / "again.json"
    load(path).write(again)
    assert again.read_text() == path.read_text()


@pytest.mark.parametrize(("page", "name"), pages.BLOCKS)
def test_pages_are_as_measured(page: str, name: str) -> None:
    text = pages.BLOCKS[page, name].text().rstrip()
    assert f"<!-- {name} -->\n{text}\n<!-- end of {name} -->" in (DOCS / page).read_text(), AGAIN


def test_rows_of_an_older_run_keep_its_day_and_commit() -> None:
    about = {"machine": "a", "date": "2026-01-01", "commit": "1234567", "dated_by": "run"}
    found = Results("b", about, [{"case": "c", "way": "w"}])
    found.measured_again({**about, "date": "2026-01-02"})
    assert found.rows == [{"date": "2026-01-01", "case": "c", "way": "w"}]
    assert found.about["date"] == "2026-01-02"
    with pytest.raises(SystemExit, match="another machine"):
        found.measured_again({**about, "machine": "b"})


@pytest.mark.parametrize("name", ["kernels", "configure"])
def test_cases_of_attention_are_run_from_any_folder(name: str, tmp_path: Path) -> None:
    assert harness.cases(harness.bench_of(name), tmp_path)
