"""What the paper's own accuracies say by its own test, on its sets and on those at hand. Pure."""

from collections.abc import Sequence

from anchormoe.benchmark.report_tables import Paper
from anchormoe.benchmark.significance import Ranking, compare_with_control, rank_methods

CONTROL = "AnchorMoE"


def describe_paper_ranks(paper: Paper, at_hand: Sequence[str]) -> str:
    """Two more points of the list on the page; nothing without the paper's figures."""
    everywhere = [name for name in paper.classification if paper.classification[name].get("accuracy")]
    here = [name for name in everywhere if name in at_hand]
    if not everywhere or len(here) < 2:
        return ""
    return _one_sided(paper_ranking(paper, everywhere)) + "\n" + _inside(paper_ranking(paper, here))


def paper_ranking(paper: Paper, sets: Sequence[str]) -> Ranking:
    """By the accuracies that the paper prints."""
    tables = [{key: value[0] for key, value in paper.classification[name]["accuracy"].items()} for name in sets]
    return rank_methods(tables)


def _one_sided(ranking: Ranking) -> str:
    two, one = (compare_with_control(ranking, CONTROL, two_sided=sides) for sides in (True, False))
    nearest = min(rank for name, rank in ranking.ranks.items() if name != CONTROL)
    lead = nearest - ranking.ranks[CONTROL]
    holds = "still holds" if lead > two.critical_difference else "does not hold"
    return (
        f"3. Its critical difference, called two-sided, is the one-sided one: {one.critical_difference:.3f} for "
        f"{len(ranking.ranks)} methods on {ranking.sets} sets; two-sided it is {two.critical_difference:.3f}. At that "
        f"its claim {holds} (the next method is {lead:.2f} ranks away)."
    )


def _inside(ranking: Ranking) -> str:
    test = compare_with_control(ranking, CONTROL)
    ours = ranking.ranks[CONTROL]
    inside = {
        name: rank - ours
        for name, rank in sorted(ranking.ranks.items(), key=lambda item: item[1])
        if name != CONTROL and rank - ours <= test.critical_difference
    }
    named = ", ".join(f"{name} {difference:.2f}" for name, difference in inside.items())
    return (
        f"4. On the {ranking.sets} sets at hand the claim cannot be repeated even from the paper's own accuracies: the "
        f"two-sided critical difference is {test.critical_difference:.2f}, and {len(inside)} methods lie inside it "
        f"({named}).\n"
        if inside
        else f"4. On the {ranking.sets} sets at hand the paper's own accuracies separate all methods (two-sided "
        f"critical difference {test.critical_difference:.2f}).\n"
    ) + "\nFour more are about its explanations: [explainers](explainers.md)."
