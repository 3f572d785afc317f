"""Values that users are likely to give: one permutation of the chart each, in `helm/ci`."""

from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[2] / "helm"
FILES = {path.name.removesuffix("-values.yaml"): path for path in sorted((CHART / "ci").glob("*-values.yaml"))}
PERMUTATIONS: dict[str, dict[str, Any]] = {name: yaml.safe_load(path.read_text(encoding="utf-8")) for name, path in FILES.items()}
