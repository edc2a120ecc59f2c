"""Replacing a part in a config: another `use` means other settings, so the old ones go."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf, flag_override, open_dict

__all__ = ["mark_replaced", "merged", "remove_gone"]

_GONE = "a setting of a part that another one replaces"


def mark_replaced(old: Any, new: Any) -> None:
    """Mark in ``new`` the settings of every part in ``old`` that ``new`` replaces with another `use`."""
    if not (isinstance(old, DictConfig) and isinstance(new, DictConfig)):
        return
    plain: tuple[Any, Any] = (_plain(old), _plain(new))
    if not all(isinstance(one, dict) for one in plain):
        return
    if plain[0].get("use", plain[1].get("use")) != plain[1].get("use", plain[0].get("use")):
        with open_dict(new):
            for name in set(old) - set(new):
                new[name] = _GONE
    nodes = (dict(old.items_ex(resolve=False)), dict(new.items_ex(resolve=False)))
    for name in set(nodes[0]) & set(nodes[1]):
        mark_replaced(nodes[0][name], nodes[1][name])


def remove_gone(config: Any) -> None:
    """Remove what ``mark_replaced`` has marked, once everything is merged."""
    if not (isinstance(config, DictConfig) and isinstance(_plain(config), dict)):
        return
    for name, value in list(config.items_ex(resolve=False)):
        if value == _GONE:
            with flag_override(config, ["readonly", "struct"], values=False):
                del config[name]
        else:
            remove_gone(value)


def merged(config: DictConfig, changes: Any) -> DictConfig:
    """Return ``config`` changed by ``changes``; a part replaced with another `use` loses its settings."""
    new = OmegaConf.create(changes)
    mark_replaced(config, new)
    result = OmegaConf.merge(config, new)
    assert isinstance(result, DictConfig)
    remove_gone(result)
    return result


def _plain(config: DictConfig) -> Any:
    """Return plain data; None or "???" when the node holds that instead of a mapping."""
    return OmegaConf.to_container(config, resolve=False)
