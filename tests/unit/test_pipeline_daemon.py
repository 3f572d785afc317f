"""The daemon of Spark's Python workers, before it imports anything."""

from pathlib import Path

from app.pipeline.daemon import without_archives


def test_modules_come_from_files_with_bytecode_where_there_are_any(tmp_path: Path) -> None:
    archive = str(tmp_path / "pyspark" / "python" / "lib" / "pyspark.zip")
    assert without_archives([archive, str(tmp_path), "elsewhere"]) == [archive, str(tmp_path), "elsewhere"], "there is no other pyspark"
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "worker.py").touch()
    assert without_archives([archive, str(tmp_path), "elsewhere"]) == [str(tmp_path), "elsewhere"]
