"""Rust's modules by floor: a use that goes up would be a circle between the crates to come."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "crates/core/src"

FLOORS = (
    {"codec", "data", "error", "given", "halt", "http1", "http2", "meter", "net", "os", "spec"},
    {"server", "target"},
    {"engine"},
    {"archives", "ceiling"},
)
FLOOR = {module: floor for floor, modules in enumerate(FLOORS) for module in modules}


def code(path: Path) -> str:
    """Without comments and what is only there for tests, which may use everything."""
    text = re.sub(r"//.*", "", path.read_text())
    return re.split(r"#\[cfg\(test\)\]\s*mod tests \{", text)[0]


def upward(path: Path) -> list[str]:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".rs")
    text = code(path)
    used = set(re.findall(r"\bcrate::(\w+)", text))
    for group in re.findall(r"\bcrate::\{(.*?)\};", text, re.DOTALL):
        used |= set(re.findall(r"(?:^|,)\s*(\w+)", group))
    above = {
        module
        for module in used
        if FLOOR[module] > FLOOR[own] or (FLOOR[module] == FLOOR[own] == 1 and module != own)
    }
    return [f"{path.relative_to(SOURCE)} uses {module}" for module in sorted(above)]


def test_no_use_goes_up() -> None:
    files = [
        path
        for path in SOURCE.rglob("*.rs")
        if "tests" not in path.relative_to(SOURCE).parts
        and path.name not in ("lib.rs", "tests.rs")
        and not path.stem.endswith("_tests")
    ]
    assert len(files) > 200
    assert [use for path in files for use in upward(path)] == []


def test_every_module_has_a_floor() -> None:
    declared = re.findall(r"^pub mod (\w+);", (SOURCE / "lib.rs").read_text(), re.MULTILINE)
    assert sorted(declared) == sorted(FLOOR)
