"""Every model of onnx's backend test suite, read and written: equal, and valid."""

from __future__ import annotations

import onnx
import pytest

from amanda_onnx.format import Format

COUNTS = {  # of onnx 1.23; newer ones have more
    "node": 1884,
    "simple": 23,
    "real": 9,
    "pytorch-converted": 82,
    "pytorch-operator": 35,
}


@pytest.mark.parametrize("kind", COUNTS)
def test_models_come_back_equal(kind, models, same_model):
    codec = Format()
    names = [name for name in models if name.startswith(f"{kind}/")]
    assert len(names) >= COUNTS[kind]
    different, refused = [], []
    for name in names:
        graph = codec.read(models[name])
        assert graph.check() == []
        written = onnx.load_model_from_string(codec.dumps(graph))
        if not same_model(onnx.load_model_from_string(models[name]), written):
            different.append(name)
        try:
            onnx.checker.check_model(written)
        except onnx.checker.ValidationError:
            refused.append(name)
    assert (different, refused) == ([], [])


def test_a_second_time_gives_the_same_bytes(models):
    codec = Format()
    for name in list(models)[::40]:
        once = codec.dumps(codec.read(models[name]))
        assert codec.dumps(codec.read(once)) == once, name


def test_models_survive_every_form_of_amanda(models, tmp_path):
    """Nothing that the format keeps is lost on the way through files of ours."""
    import amanda

    codec = Format()
    for name in list(models)[::100]:
        graph = codec.read(models[name])
        once = codec.dumps(graph)
        for suffix in (".amanda", ".ampb", ".yaml", ".amtxt"):
            path = tmp_path / f"model{suffix}"
            amanda.save(graph, path)
            assert codec.dumps(amanda.load(path)) == once, (name, suffix)
