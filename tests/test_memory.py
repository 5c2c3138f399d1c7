"""Peak memory, and limits where the system does not tell."""

import numpy as np

from scalefair import _memory
from scalefair._memory import available_memory, peak_memory, reset_peak_memory


def test_peak_memory_until_reset():
    reset_peak_memory()  # of the tests before
    before = peak_memory()
    block = np.ones(20_000_000)  # 160 MB
    del block
    with_block = peak_memory()
    assert with_block > max(before, 160e6)
    if reset_peak_memory():
        assert peak_memory() < with_block - 100e6


def test_files_in_the_memory_of_a_container_can_be_dropped(tmp_path, monkeypatch):
    for name, text in (
        ("_LIMIT", "1000"),
        ("_USE", "990"),
        ("_STATISTICS", "anon 90\ninactive_file 800\nactive_file 100\n"),
    ):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(_memory, f"_CONTAINER{name}", tmp_path / name)
    assert available_memory() == 810


def test_the_system_may_not_tell_of_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(_memory, "_RESET_PEAK", tmp_path / "missing" / "clear_refs")
    monkeypatch.setattr(_memory, "_PROCESS_STATUS", tmp_path / "missing" / "status")
    monkeypatch.setattr(_memory, "available_memory", lambda: None)
    assert not reset_peak_memory()
    assert peak_memory() > 10e6  # from getrusage
    assert _memory.array_limit(None) == 2**31
    assert _memory.array_limit(7) == 7
