import numpy as np

from scalefair.cli._memory import peak_memory, reset_peak_memory


def test_peak_remembers_what_was_freed_until_reset():
    before = peak_memory()
    assert before is not None
    block = np.ones(20_000_000)  # 160 MB
    del block
    with_block = peak_memory()
    assert with_block > 160e6
    if reset_peak_memory():
        assert peak_memory() < with_block - 100e6


def test_the_system_may_refuse_a_reset(tmp_path, monkeypatch):
    from scalefair.cli import _memory

    monkeypatch.setattr(_memory, "_CLEAR", tmp_path / "missing" / "clear_refs")
    monkeypatch.setattr(_memory, "_STATUS", tmp_path / "missing" / "status")
    assert not reset_peak_memory()
    assert peak_memory() > 10e6  # from getrusage
