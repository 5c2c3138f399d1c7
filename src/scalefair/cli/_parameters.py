"""Options that are parameters of an estimator, and its messages in their spelling."""

import inspect
import re
from collections.abc import Mapping, Sequence
from math import inf
from numbers import Integral
from typing import Any

import click
from click.core import ParameterSource

from scalefair.cli._options import Count, Finite, option, spell_option

# Parameters without an underscore that are no English words: in a text they are
# parameters wherever they occur.
_UNAMBIGUOUS_NAMES = {"dtype", "kappa", "tol"}
# The remedy of `check_are_groups`, for users of Python.
_AS_STRINGS = "give them as strings, x.astype(str)"


def estimator_options(
    estimator: type, sections: Mapping[str, str], **changes: Mapping[str, Any]
) -> list[Any]:
    """Return options with names, types, defaults and help of parameters.

    `sections` lists the parameters, such as ``"tol n_clusters,-k"`` with an alias;
    `changes` has attributes of an option that differ from the estimator's.
    """
    # 1. What the estimator says of its parameters.
    signature = inspect.signature(estimator)
    constraints = vars(estimator)["_parameter_constraints"]
    parameters = [
        (section, *names.split(","))
        for section, text in sections.items()
        for names in text.split()
    ]
    helps = _read_docs(estimator, [name for _, name, *_ in parameters])
    # 2. An option of each, with what differs from it.
    options = []
    for section, name, *aliases in parameters:
        spelling = spell_option(name)
        default = signature.parameters[name].default
        attributes: dict[str, Any] = {
            "help": helps.get(name),
            # Of a type such as numpy.float64 the name.
            "default": getattr(default, "__name__", default),
        }
        if "boolean" in constraints[name]:
            spelling += f"/--no-{spelling[2:]}"
        else:
            attributes |= _type_of(constraints[name], default)
        attributes |= changes.get(name, {})
        if attributes.get("required"):
            del attributes["default"]
        options.append(option(section, spelling, *aliases, name, **attributes))
    return options


def _type_of(constraints: Sequence[Any], default: Any) -> dict[str, Any]:
    """Return the type of an option, from the constraints of scikit-learn."""
    from sklearn.utils._param_validation import Interval, StrOptions

    if "random_state" in constraints:
        text = "Seed; the same seed gives the same result."
        return {"type": Count(0, 2**32 - 1), "default": 0, "help": text}
    interval = next((x for x in constraints if isinstance(x, Interval)), None)
    options = next((x.options for x in constraints if isinstance(x, StrOptions)), ())
    choices = sorted(options, key=lambda name: (name != default, name))
    if interval is not None and issubclass(interval.type, Integral):
        return {"type": Count(interval.left)}
    if interval is not None:
        number = Finite(
            -inf if interval.left is None else interval.left,
            inf if interval.right is None else interval.right,
            choices,
            min_open=interval.closed not in ("left", "both"),
            max_open=interval.closed not in ("right", "both"),
        )
        return {"type": number}
    if choices and None in constraints:
        return {"type": click.Choice([*choices, "none"]), "callback": _none_as_none}
    return {"type": click.Choice(choices)} if choices else {}


def _none_as_none(_: Any, __: Any, value: str) -> str | None:
    """Return None for the choice "none": choices of click are strings."""
    return None if value == "none" else value


def _read_docs(estimator: type, names: Sequence[str]) -> dict[str, str]:
    """Return the first sentence about each parameter, without markup and citations."""
    doc = inspect.getdoc(estimator) or ""
    section = re.split(r"\n\n\w+\n-+\n", doc.partition("Parameters\n---")[2])[0]
    spellings = {name: spell_option(name) for name in names}
    sentences = {}
    for name, text in re.findall(r"^(\w+) : .*\n((?: {4}.+\n?)+)", section, re.M):
        text = " ".join(text.split()).replace("None takes", "by default")
        # Citations, then names of parameters, then the end of the first sentence.
        text = re.sub(r"(,? as in| in| of)? \[\d\]_| \(see [^)]*\)|:math:", "", text)
        text = re.sub(r"(?<!`)`(\w+)`", lambda m: spellings.get(m[1], m[1]), text)
        text = _use_spellings(re.split(r"(?<=[\w)])\. ", text)[0], spellings)
        sentences[name] = re.sub(r"`|(?<!\w)\"|\"(?!\w)", "", text).rstrip(".") + "."
    return sentences


def translate(message: str, ctx: click.Context | None) -> str:
    """Replace the parameters that an estimator names by options of the command."""
    if ctx is None:
        return message
    spellings = {str(param.name): param.opts[0] for param in ctx.command.params}
    message = message.replace(_AS_STRINGS, "name their column in --categorical")
    if "directed" in spellings:
        symmetrise = "for example with (W + W.T) / 2 or W.maximum(W.T)"
        message = message.replace(symmetrise, "with --directed sum or --directed max")
    roles = {"sensitive_features": "--groups", "sample_weight": "--weight"}
    return _use_spellings(message, {**roles, **spellings})


def _use_spellings(text: str, spellings: Mapping[str, str]) -> str:
    """Write ``--max-iter 5`` for ``max_iter=5``, ``--max-iter`` for ``max_iter``."""
    # Names such as ``solver`` are English words as well, but ``solver="x"`` is not.

    def spell(match: re.Match[str]) -> str:
        name, value = match.groups()
        option = spellings[name]
        if value is not None:
            flags = {"True": option, "False": f"--no-{option[2:]}"}
            return flags.get(value, f"{option} {value.replace('None', 'none')}")
        is_english = "_" not in name and name not in _UNAMBIGUOUS_NAMES
        return name if is_english else option

    names = "|".join(spellings)
    value = r"(?: ?= ?[`'\"]*([\w.+-]*\w)[`'\"]*)?"
    return re.sub(rf"(?<![\w.-])({names})\b{value}", spell, text)


def parameters_in_force(
    ctx: click.Context,
    parameters: Mapping[str, Any],
    conditions: Mapping[str, tuple[str, tuple[str, ...]]],
) -> dict[str, Any]:
    """Drop options that do not apply; refuse them if they are on the command line.

    `conditions` has for an option another one, and the values of it that it needs.
    """
    spellings = {param.name: param.opts[0] for param in ctx.command.params}
    idle = {k: v for k, v in conditions.items() if ctx.params[v[0]] not in v[1]}
    for name, (other, values) in idle.items():
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(
                f"{spellings[name]} applies to {spellings[other]} "
                f"{' or '.join(values)} only, not to {spellings[other]} "
                f"{ctx.params[other]}.",
                ctx,
            )
    return {name: value for name, value in parameters.items() if name not in idle}
