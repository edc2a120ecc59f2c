"""From the arguments of ``Pipeline`` to the mapping of a config."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ttsflow.composing.assemble import DEFAULT_COSTS
from ttsflow.errors import ConfigError
from ttsflow.types import Sampling

__all__ = [
    "budgeted",
    "engine_of",
    "engines_of",
    "group_of",
    "mapping_of",
    "on_hardware",
    "part_of",
    "sampling_of",
    "strategy_of",
]


def strategy_of(
    strategy: str | Mapping[str, Any], settings: Mapping[str, Any], config_dir: str | None
) -> dict[str, Any]:
    """Return a strategy, named with settings of its own or written as in a file, ready to build."""
    for reserved in {"use", "name"} & set(settings):
        raise ConfigError(f"a strategy has no setting '{reserved}'; name it by the first argument.", reserved)
    from ttsflow import config  # noqa: PLC0415 - Hydra is loaded for whoever makes a pipeline

    if isinstance(strategy, str):
        return config.strategy(strategy, settings, config_dir)
    if not isinstance(strategy, Mapping):
        raise ConfigError(f"a strategy is a name or a mapping, got {strategy!r}.", "strategy")
    return config.strategy_of({**strategy, **settings}, config_dir)


def sampling_of(sampling: str | Mapping[str, Any] | None, engine: Any) -> dict[str, Any]:
    """Return the settings of a preset, or those that go with an engine named and not described."""
    named = isinstance(engine, str) and sampling is None
    if not (named or isinstance(sampling, str)):
        return mapping_of(sampling, "sampling")
    from ttsflow import config  # noqa: PLC0415 - Hydra is loaded for whoever makes a pipeline

    words = [f"engine={engine}"] if named else [f"sampling={sampling}"]
    return dict(config.compose(words)["sampling"])


def mapping_of(value: Any, name: str) -> dict[str, Any]:
    """Return a mapping of settings, empty for None; ``name`` is that of the argument."""
    if value is not None and not isinstance(value, Mapping):
        raise ConfigError(f"a mapping of settings is wanted, got {value!r}.", name)
    return dict(value or {})


def part_of(value: Any, name: str) -> dict[str, Any] | None:
    """Return a part's mapping; a bare name is a part without settings."""
    if value is None:
        return None
    return {"use": value} if isinstance(value, str) else mapping_of(value, name)


def on_hardware(hardware: str | Mapping[str, Any] | None, engine: dict[str, Any]) -> dict[str, Any]:
    """Return an engine with the device it simulates: a name of the config group, or its numbers."""
    if engine["use"] != "sim":
        if hardware is not None:
            raise ConfigError("only engine='sim' simulates a device.", "hardware")
        return engine
    if hardware is not None and "hardware" in engine:
        raise ConfigError("the device is given twice, by `hardware` and in `engine`.", "hardware")
    if isinstance(hardware, Mapping):
        return {**engine, "hardware": hardware}
    if "hardware" in engine:
        return engine
    from ttsflow import config  # noqa: PLC0415 - Hydra is loaded for whoever makes a pipeline

    words = ["engine=sim", *([] if hardware is None else [f"hardware={hardware}"])]
    return {**engine, "hardware": config.compose(words)["hardware"]}


def engine_of(model: str | None, engine: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the engine, vLLM unless another is named, with its model."""
    mapping = {"use": "vllm", **(engine or {})}
    if model is not None:
        if "model" in mapping:
            raise ConfigError("the model is given twice, by `model` and in `engine`.", "model")
        mapping["model"] = model
    elif mapping["use"] == "vllm" and "model" not in mapping:
        raise ConfigError("a model is needed: a folder, a hub id or 'demo'.", "model")
    return mapping


def engines_of(engines: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return further engines by name, each described as the engine of the run."""
    found = {}
    for name, engine in mapping_of(engines, "engines").items():
        try:
            found[name] = engine_of(None, part_of(engine, ""))
        except ConfigError as error:
            raise error.below(f"engines.{name}") from error
    return found


def group_of(value: Any, name: str, config_dir: str | None) -> dict[str, Any] | None:
    """Return a part's mapping; a name stands for the file of that name in the config group ``name``."""
    if value is None or not isinstance(value, str):
        return part_of(value, name)
    from ttsflow import config  # noqa: PLC0415 - Hydra is loaded for whoever makes a pipeline

    return dict(config.compose([f"{name}={value}"], config_dir)[name])


def budgeted(
    budget: str | Mapping[str, Any] | None,
    cost: Mapping[str, Any] | None,
    sampling: Mapping[str, Any],
    config_dir: str | None,
) -> dict[str, Any]:
    """Return budget and cost models: those of a preset, by name or as ``preset`` of a mapping, and the given.

    A preset may go by ``sampling``. Cost models that are given are added, or change those of the preset.
    """
    given = {"preset": budget} if isinstance(budget, str) else mapping_of(budget, "budget")
    preset, costs = given.pop("preset", None), mapping_of(cost, "cost")
    models: dict[str, Any] = {name: dict(model) for name, model in DEFAULT_COSTS.items()}
    if preset is not None:
        if not isinstance(preset, str):
            raise ConfigError(f"the name of a preset is a text, got {preset!r}.", "budget.preset")
        from ttsflow import config  # noqa: PLC0415 - Hydra is loaded for whoever makes a pipeline

        longest = sampling.get("max_tokens", Sampling().max_tokens)
        words = [f"budget={preset}", f"sampling.max_tokens={longest}", *_words(given, "budget")]
        composed = config.compose(words, config_dir)
        given, models = dict(composed["budget"]), dict(composed["cost"])
    for name, model in costs.items():
        models[name] = {**models.get(name, {}), **mapping_of(model, f"cost.{name}")}
    return {"budget": given, "cost": models}


def _words(given: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield settings as overrides of a config."""
    for key, value in given.items():
        if isinstance(value, Mapping) and value:
            yield from _words(value, f"{path}.{key}")
        else:
            yield f"{path}.{key}={json.dumps(value, default=str)}"
