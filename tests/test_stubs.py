"""The page's start: Gradio is imported without the stubs it writes for editors."""

import importlib.util
import inspect
import sys

import pytest

from app.stubs import no_stubs

SOURCE = "import gradio as gr\n\n\nclass Box(gr.Textbox):\n    pass\n"


def defined(folder, name: str):
    """A component class from a module of its own."""
    folder.mkdir()
    (folder / "boxed.py").write_text(SOURCE)
    spec = importlib.util.spec_from_file_location(name, folder / "boxed.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
    return module.Box


def test_components_work_the_same_without_a_stub(tmp_path):
    ask = inspect.getfile
    with no_stubs():
        plain = defined(tmp_path / "without", "app.boxed_without")
        assert inspect.getfile(pytest.Item)  # other classes are found as ever
    assert inspect.getfile is ask
    stubbed = defined(tmp_path / "with", "app.boxed_with")
    assert not (tmp_path / "without" / "boxed.pyi").exists() and (tmp_path / "with" / "boxed.pyi").exists()
    assert dir(plain) == dir(stubbed) and callable(plain.change) and callable(plain.submit)


def test_an_error_closes_it():
    ask = inspect.getfile
    with pytest.raises(RuntimeError), no_stubs():
        raise RuntimeError
    assert inspect.getfile is ask
