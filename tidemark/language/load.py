"""Load the pipeline that a module defines, the same in every process."""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tidemark.errors import PipelineError
from tidemark.language.mistake import mistake
from tidemark.language.pipeline import Pipeline


def load_pipeline(path: str) -> Pipeline:
    """Return the pipeline of ``examples.game``, ``examples/game.py`` or ``module:attribute``.

    Raises:
        PipelineError: the module does not exist, fails, or does not define exactly one pipeline.
    """
    module_path, _, attribute = path.partition(":")
    module = pipeline_module(module_path)
    return _attribute(module, attribute) if attribute else _only_pipeline(module)


def pipeline_module(path: str) -> ModuleType:
    """Return the module of ``examples.game``, ``examples/game.py`` or ``module:attribute``.

    Raises:
        PipelineError: the module does not exist, or fails; names the file and line of the mistake.
    """
    path, _, _ = path.partition(":")
    folder = import_from_here()
    name = _module_name(path)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise PipelineError(f"pipeline {path!r}: no module {name!r} in {folder}") from error
        raise PipelineError(mistake(error)) from error
    except Exception as error:  # a module of a user may raise anything
        raise PipelineError(mistake(error)) from error
    if path.endswith(".py") and Path(module.__file__ or name).resolve() != Path(path).resolve():
        raise PipelineError(
            f"pipeline {path!r}: the name {name!r} is that of {module.__file__ or name}; "
            "give the file another name"
        )
    return module


def import_from_here() -> str:
    """Return the working directory, after imports can find its modules."""
    return _import_from(Path.cwd())


def _import_from(folder: Path) -> str:
    """Return a folder as text, after imports can find its modules."""
    text = str(folder)
    if text not in sys.path:
        sys.path.insert(0, text)
    return text


def _module_name(path: str) -> str:
    """Return the dotted name of a module; that of a file is relative to the working directory."""
    if not path.endswith(".py"):
        if not all(path.split(".")):
            raise PipelineError(
                f"pipeline {path!r}: not the name of a module; write it like examples.game or "
                "examples/game.py"
            )
        return path
    file = Path(path)
    if not file.is_file():
        raise PipelineError(f"pipeline {path!r}: no such file in {Path.cwd()}")
    try:
        parts = file.resolve().relative_to(Path.cwd().resolve()).with_suffix("").parts
    except ValueError:
        return _name_in_its_folder(file)
    if not all(part.isidentifier() for part in parts):
        raise PipelineError(f"pipeline {path!r}: {'.'.join(parts)!r} is not the name of a module")
    return ".".join(parts) if _are_packages(parts[:-1]) else _name_in_its_folder(file)


def _name_in_its_folder(file: Path) -> str:
    """Return the name of a file that has no package, after imports can find it."""
    _import_from(file.resolve().parent)
    return file.stem


def _are_packages(folders: Sequence[str]) -> bool:
    """Return whether folders below the working directory are packages to imports.

    A module of the same name comes first: beside ``q.py``, the folder ``q`` needs ``__init__.py``.
    Of the names at the top, other entries of ``sys.path`` may have some, such as ``json``.
    """
    below = [Path.cwd().joinpath(*folders[: end + 1]) for end in range(len(folders))]
    if any(
        folder.with_suffix(".py").is_file() and not (folder / "__init__.py").is_file()
        for folder in below
    ):
        return False
    return not folders or below[0].resolve() in _found(folders[0])


def _found(name: str) -> list[Path]:
    """Return the folders in which imports look for the modules of a package."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # a module without a spec, such as __main__
        return []
    places = spec.submodule_search_locations if spec else None
    return [Path(place).resolve() for place in places or ()]


def _attribute(module: ModuleType, attribute: str) -> Pipeline:
    if not hasattr(module, attribute):
        raise PipelineError(
            f"module {module.__name__!r} has no {attribute!r}; its pipelines: {_listed(module)}"
        )
    found = getattr(module, attribute)
    if not isinstance(found, Pipeline):
        raise PipelineError(
            f"{module.__name__}:{attribute} is a {type(found).__name__}, not a Pipeline"
        )
    return found


def _only_pipeline(module: ModuleType) -> Pipeline:
    found = {id(pipeline): pipeline for pipeline in _pipelines(module).values()}
    if len(found) == 1:
        return next(iter(found.values()))
    hint = f"; choose one as {module.__name__}:NAME" if found else ""
    raise PipelineError(
        f"module {module.__name__!r} defines {len(found)} pipelines: {_listed(module)}{hint}"
    )


def _pipelines(module: ModuleType) -> dict[str, Pipeline]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Pipeline)}


def _listed(module: ModuleType) -> str:
    return ", ".join(_pipelines(module)) or "none"
