"""Says in ttsflow's words what Hydra, OmegaConf and YAML complain about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.plugins.config_source import ConfigLoadError
from omegaconf import DictConfig
from omegaconf.errors import InterpolationKeyError, MissingMandatoryValue, OmegaConfBaseException

from ttsflow.errors import ConfigError, suggest
from ttsflow.registry import Registry

__all__ = ["translated"]

#: What Hydra calls the config that a strategy alone is composed on.
EMPTY = "_dummy_empty_config_"


@contextmanager
def translated(registry: Registry, loader: ConfigLoaderImpl) -> Iterator[None]:
    """Turn every error of composing and resolving into a ``ConfigError`` with the path of what is wrong."""
    try:
        yield
    except MissingConfigException as error:
        raise _missing_file(error, registry, loader) from error
    except OverrideParseException as error:
        reason = str(error.message).partition("\n")[0]
        raise ConfigError(
            f"'{error.override}' cannot be read: {reason}. Write key=value; a value with spaces, brackets or "
            "commas goes into quotes, inside those of the shell."
        ) from error
    except OmegaConfBaseException as error:
        raise _bad_key(error) from error
    except (HydraException, ConfigLoadError, ValueError) as error:
        # Hydra does not always say `raise ... from`.
        cause = error.__cause__ or error.__context__
        if isinstance(cause, OmegaConfBaseException):
            raise _bad_key(cause) from error
        raise _composition(str(error)) from error
    except OSError as error:
        if error.errno is not None:
            raise
        # OmegaConf's word for a file that holds a single value.
        raise ConfigError(f"a config file is a mapping, and one holds a single value: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"a config file is not valid YAML: {error}") from error


def _missing_file(error: MissingConfigException, registry: Registry, loader: ConfigLoaderImpl) -> ConfigError:
    group, _, name = str(error.missing_cfg_file or "").rpartition("/")
    source = re.search(r"In '([^']+)'", str(error))
    asked = f", which '{source[1]}' asks for" if source and source[1] not in ("config", EMPTY) else ""
    kind = group or "config file"
    options = loader.repository.get_group_options(group) if group else error.options or []
    # Nothing in the working directory is read unless it is named.
    own = next((folder for folder in (".", "conf") if Path(folder, group, f"{name}.yaml").is_file()), None)
    here = f"{Path(own or '.', group, name)}.yaml is read with --config-dir {own}. " if group and own else ""
    return ConfigError(
        f"there is no {kind} '{name}'{asked}. {here}{suggest(name, options)}{registry.not_loaded}",
        group,
    )


def _bad_key(error: OmegaConfBaseException) -> ConfigError:
    path = str(error.full_key or "")
    reason = str(error).partition("\n")[0]
    if isinstance(error, InterpolationKeyError):
        missing = re.search(r"'([^']+)' not found", reason)
        group, _, name = (missing[1] if missing else "").rpartition(".")
        known = _keys(error, group)
        hint = suggest(name, known)
        if not group and path.startswith("strategy"):
            # Mostly a variable of the strategy, which is asked for as if it stood beside it.
            hint = f"A variable of the strategy is written ${{strategy.{name}}}, not ${{{name}}}. {hint}"
        return ConfigError(f"it refers to '{name}', which {group or 'the config'} lacks. {hint}", path)
    if "not in struct" in reason or "not in '" in reason:
        key = str(error.key)
        known = [name for name in _keys(error, None) if name != "hydra"]
        hint = suggest(key, known) if known else "Nothing can be set below it."
        return ConfigError(f"there is no setting '{key}'. {hint}", path)
    if isinstance(error, MissingMandatoryValue):
        return ConfigError(f"it has no default, and has to be set: {path}=...", path)
    return ConfigError(reason, path)


def _keys(error: OmegaConfBaseException, group: str | None) -> list[str]:
    """Return the keys beside the one that failed, or those at ``group`` when that is given."""
    node: Any = error.parent_node
    if group is not None and node is not None:
        node = node._get_root()  # noqa: SLF001 - OmegaConf has no public way up
        for name in filter(None, group.split(".")):
            node = node.get(name) if isinstance(node, DictConfig) else None
    return [str(key) for key in node] if isinstance(node, DictConfig) else []


def _composition(text: str) -> ConfigError:
    ambiguous = re.match(r"Ambiguous value for argument '(.*)'|Sweep parameters '(.*)' requires", text)
    if ambiguous:
        return ConfigError(
            f"'{ambiguous[1] or ambiguous[2]}' gives several values. To sweep over them, add -m. For a list "
            "write key=[a,b]; for one text with commas, key=\"'a,b'\"."
        )
    if text.startswith("Config group override must be"):
        return ConfigError(
            "a group takes the name of one of its files, such as strategy=majority or verifier=none."
        )
    twice = re.match(r"Multiple values for (\S+)\. ", text)
    if twice:
        return ConfigError(f"'{twice[1]}' is there already; write {twice[1]}=NAME without `+`.", twice[1])
    return ConfigError(text)
