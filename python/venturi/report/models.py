"""Models in show and in the page: sentences, and the figures of scaling and of time over payload."""

from __future__ import annotations

from venturi.analysis.models import fit_words, link_words
from venturi.analysis.results import Results
from venturi.report.figures.models import MOST_PANELS, MOST_SIZES, telling_sizes


def sections(results: Results) -> list[tuple[str, list[str]]]:
    """Title and sentences of each model shown; empty where there is nothing to fit."""
    found = results.fits
    out = [(fit_words.head(one), fit_words.axis_sentences(one)) for one in found.main[:MOST_PANELS]]
    sizes = telling_sizes(found)
    if sizes:
        texts = [f"{fit_words.head(s)}: {fit_words.size_sentence(s)}" for s in sizes]
        hidden = len(found.sizes) - len(sizes)
        if hidden:
            texts.append(f"{hidden} more; venturi fit RUN --all has them")
        out.append((fit_words.SIZES, texts))
    if results.batch_costs:
        costs = [
            f"{one.operation}{', ' + fit_words.setting(one.where) if one.where else ''}: {one.sentence}"
            for one in results.batch_costs[:MOST_SIZES]
        ]
        out.append((fit_words.COSTS, costs))
    out += [(link_words.head(one), link_words.sentences(one)) for one in results.link_fits[:MOST_SIZES]]
    passed = results.link_crossings
    if passed:
        out.append((link_words.CROSSINGS, [link_words.crossing(one) for one in passed[:MOST_SIZES]]))
    fitted = {s.axis for s in found.scalings}
    effects = [
        fit_words.effect_sentence(e)
        for e in found.effects
        if e.parameter not in fitted or (e.above is not None and not e.above.significant)
    ]
    if effects:
        out.append(("what matters", effects))
    return out


def lines(results: Results) -> list[str]:
    """For the terminal, short: what the findings do not say of the axes."""
    costs = [one for one in results.batch_costs if one.fit is not None]
    out = [f"{one.operation}: {one.sentence}" for one in costs[:1]]
    fit = next((one for one in results.link_fits if one.law is not None), None)
    if fit is not None:
        out.append(f"{link_words.head(fit)}: {'; '.join(link_words.sentences(fit))}")
    return out
