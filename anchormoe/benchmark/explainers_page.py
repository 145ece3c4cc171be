"""The page of the paper's explainers beside our evidence."""

from datetime import date

from anchormoe.benchmark import report_explainers as explainers
from anchormoe.benchmark.report_page import compose_page, describe_run, outdated_note, section, titled
from anchormoe.benchmark.report_tables import Paper, omissions
from anchormoe.benchmark.runner import BenchmarkPlan, BenchmarkResults

EXPLAINERS_TEXT = """\
All explain the same two models of a set and seed, which are fitted on TRAIN alone: *the paper's net* (recipe `paper`,
epochs chosen on TRAIN) and *our default model* (recipe `joint`). They explain the logit of the predicted class minus
the mean over classes, from TRAIN's mean as the baseline. Our evidence is read from the forward pass. Our default model
counts kernels' positive values and has no gradient: Vanilla, Input × Gradient, Integrated Gradients, DeepLIFT,
DeepSHAP and DynaMask cannot explain it (finite differences would take one prediction per value and update, some
hundred thousand per case), and TimeX needs a differentiable copy of the model to begin with. FIT and occlusion only
call it.

How values are added over channels was fixed beforehand, by what they mean: signed attributions (Input × Gradient,
Integrated Gradients, DeepLIFT, DeepSHAP, occlusion, our evidence) by their sum, since they add up to the score; sizes
and masks (Vanilla, DynaMask, TimeX) as they are; FIT by its positive part, since a negative value says that a channel
explains nothing. A patch gets the mean of its steps; the paper's net publishes contributions of patches, and where
those are the patches that are scored, they are taken as they are.

What each still lacks: *DynaMask* has three areas (10, 20, 30 %) and 300 updates instead of 1,000; *FIT* has a Gaussian
generator without a latent variable and three draws instead of ten, and sees what is later as missing; *TimeX* has a
convolutional mask generator, no prototypes, and keeps its last epoch (50). Mean ± standard deviation over seeds; one
seed has none.
"""
OURS_TEXT = """\
Localization and I(20) are compared with every explainer of both models, so that a lead is one of model and explanation
together: the explainers that need a gradient explain another, less accurate model. Gap is compared with explainers of
our model alone, since a robust model has a small Gap by every ranking. The standard error is that of both figures over
cases.
"""
RULES_TEXT = """\
AUPRC / IoU@K / Precision@K on the first 120 correctly classified TEST cases, patches of 16 steps every 8. The paper
does not state which patches it counts as true. The second rule is inferred: of about 25 that were tried, it is the one
by which a random ranking scores what the paper's Random row prints; compare the row *Random* with its brackets.
"""
REMOVAL_TEXT = """\
*Gap*: accuracy after removing the least relevant steps minus that after removing the most relevant ones, mean over 10
to 50 % of the valid steps, removed steps set to TRAIN's mean, no retraining, up to 400 TEST cases. *I(20)*: accuracy of
a small convolutional net that is retrained from scratch on the 20 % of the steps that an explainer puts first (keep and
retrain, Hooker et al.; TimeX's own protocol does not retrain), up to 400 cases of TRAIN and TEST each; *mask only*: the
same net sees which steps were kept, but none of their values. Where that is far above chance, the places give the class
away. Masks of patches score better under retraining than scattered steps, which favours ours. The paper's figures in
brackets are of its own net, evaluator and amounts, which it does not state; its ± 0.000 over seeds says that one
trained model was explained. Of its seven sets three are at hand.
"""
DEEPLIFT_TEXT = """\
captum's DeepLIFT replaces the gradients of activation *modules*. The paper's net, as we wrote it, has none, so that
DeepLIFT is Input × Gradient and does not add up to the change of the score. In the paper's tables the two columns agree
to every printed digit, which suggests the same cause. DeepSHAP inherits this.
"""
TIMES_TEXT = """\
Milliseconds per case, {threads}, and seconds to prepare; other processes ran at the same time. For our evidence it is
a whole prediction with its evidence; the others need the prediction besides.
"""


def explainers_report(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper, today: date) -> str:
    """Our evidence against the best first; then every table."""
    return compose_page(
        f"# {plan.title or 'Explainers of the paper, run by us'}",
        describe_run(plan, today),
        EXPLAINERS_TEXT,
        titled("In short, means over the sets in brackets:", explainers.summary_table(plan, results)),
        _summary("## Is our evidence the best?", explainers.verdicts(plan, results, "joint"), OURS_TEXT),
        _summary("## Is the paper's evidence the best of its net?", explainers.verdicts(plan, results, "paper"), ""),
        section(
            "## Where the evidence is known",
            RULES_TEXT,
            *explainers.localization_tables(plan, results, paper),
            titled(
                "AUPRC by our rule, over patches, with values taken without their sign:",
                explainers.absolute_table(plan, results),
            ),
        ),
        section(
            "## Where it is not: Gap and I(20)",
            REMOVAL_TEXT,
            titled("Gap (the paper's):", explainers.gap_table(plan, results, paper)),
            titled("Gap by share of the steps removed:", explainers.shares_table(plan, results)),
            titled("I(20) (the paper's) / mask only:", explainers.retention_table(plan, results, paper)),
        ),
        section(
            "## Time per explanation",
            TIMES_TEXT.format(threads="one thread" if plan.effort.n_jobs == 1 else f"{plan.effort.n_jobs} threads"),
            explainers.times_table(plan, results),
        ),
        section("## Is DeepLIFT DeepLIFT?", DEEPLIFT_TEXT, explainers.soundness_table(plan, results)),
        "## Accuracy of what is explained",
        explainers.accuracy_table(plan, results),
        outdated_note(results),
        omissions(results),
    )


def _summary(title: str, found: list[explainers.Verdict], text: str) -> str:
    """Nothing without a column that the evidence and another explainer have."""
    if not found:
        return ""
    behind = [one.column for one in found if not one.level]
    count = f"Best, or within one standard error of the best, in {len(found) - len(behind)} of {len(found)} columns."
    named = f" Behind in: {'; '.join(behind)}." if behind else ""
    return compose_page(title, text, count + named, explainers.verdict_table(found))
