"""Campaigns of faults: which op's faults change the results most."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from amanda import apply, run
from amanda.errors import UsageError
from amanda.graph import Graph
from amanda.instrument import Instrumentation, Report, Site, Tool
from amanda_tools.injection.inject import Inject
from amanda_tools.pictures import draw_shares

__all__ = ["Campaign", "Summary", "Trial", "run_campaign", "summarize"]


class Trial(NamedTuple):
    """One faulty run of a campaign."""

    op: str
    seed: int
    error: float
    """The largest difference of a result, relative to the largest value expected."""
    changed: float
    """The share of examples whose largest result is another one."""
    accuracy: float | None = None
    """The share of examples whose largest result is the label."""


class Summary(NamedTuple):
    """The trials of an op."""

    op: str
    trials: int
    error: float
    """The mean of the errors that are finite."""
    changed: float
    accuracy_drop: float | None
    """Against the model without faults, where there are labels."""


class Campaign(Tool):
    """Faults in one op after the other, and how much of the results they change.

    Needs example inputs. `seeds` is the number of trials of each op; `labels` the
    expected classes, or the name of a .npy file of them; trials are kept in `file`, and
    a campaign that is started again continues. `options` are those of `inject`.

    The report has for each op the mean error, the share of examples with another class,
    and, with labels, how much accuracy drops.
    """

    name = "campaign"

    def __init__(
        self,
        *,
        seeds: int = 3,
        labels: Sequence[int] | str | None = None,
        file: str | None = None,
        backend: str = "numpy",
        **options: Any,
    ) -> None:
        Inject(**options)  # checks them
        self.seeds, self.file, self.backend = seeds, file, backend
        self.labels = np.load(labels).tolist() if isinstance(labels, str) else labels
        self.options = options

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Run the trials, and record what they did."""
        if not instrumentation.data:
            raise UsageError(
                "a campaign needs example inputs",
                hint="amanda.apply(graph, Campaign(), data=[feeds]), or "
                "`amanda instrument FILE --tool campaign --feed DATA`",
            )
        feeds, graph = instrumentation.data[0], instrumentation.graph
        trials = run_campaign(
            graph, feeds, file=self.file, seeds=range(self.seeds),
            labels=self.labels, backend=self.backend, **self.options,
        )  # fmt: skip
        exact = None
        if self.labels is not None:
            first = next(iter(run(graph, feeds, backend=self.backend).values()))
            exact = _accuracy(first, self.labels)
            instrumentation.report.summary["accuracy without faults"] = exact
        found = {row.op: row for row in summarize(trials, exact)}
        for site in instrumentation.sites():
            row = found.get(site.label)
            if row is not None:
                site.record("mean error", row.error)
                site.record("changed", row.changed)
                if row.accuracy_drop is not None:
                    site.record("accuracy drop", row.accuracy_drop)
        instrumentation.report.summary["trials"] = len(trials)

    def picture(self, report: Report) -> str | None:
        """The share of examples that faults in each op change, as bars."""
        rows = report.select("changed", tool=self.name)
        return draw_shares([(row.op, float(row.value)) for row in rows])


def run_campaign(
    graph: Graph,
    feeds: Mapping[str, Any] | Sequence[Any],
    *,
    file: str | Path | None = None,
    seeds: Sequence[int] = (0,),
    labels: Sequence[int] | None = None,
    backend: str = "numpy",
    **options: Any,
) -> list[Trial]:
    """Inject faults in one op after the other, with each seed, and compare the results.

    `options` are those of `Inject`, `labels` the classes that the first result should
    have. Trials are appended to `file`, a JSON object in each line after one of the
    options; a campaign that is started again continues where it stopped.
    """
    known = {(trial.op, trial.seed): trial for trial in _read_trials(file, options)}
    expected = list(run(graph, feeds, backend=backend).values())
    found = []
    for label in _ops_of(graph, options):
        for seed in seeds:
            trial = known.get((label, seed))
            if trial is None:
                tool = _InjectInOne(label, **{**options, "seed": seed})
                results = list(apply(graph, tool).run(feeds, backend).values())
                error, changed = _compare(results, expected)
                hits = None if labels is None else _accuracy(results[0], labels)
                trial = Trial(label, seed, error, changed, hits)
                _append_trial(file, trial, options)
            found.append(trial)
    return found


def summarize(trials: Sequence[Trial], accuracy: float | None = None) -> list[Summary]:
    """The trials by op, those that change most first.

    `accuracy` is that of the model without faults."""
    by_op: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_op[trial.op].append(trial)
    rows = []
    for op, own in by_op.items():
        errors = [trial.error for trial in own if np.isfinite(trial.error)]
        hits = [trial.accuracy for trial in own if trial.accuracy is not None]
        drop = None
        if accuracy is not None and hits:
            drop = accuracy - float(np.mean(hits))
        changed = float(np.mean([trial.changed for trial in own]))
        error = float(np.mean(errors)) if errors else float("inf")
        rows.append(Summary(op, len(own), error, changed, drop))
    return sorted(rows, key=lambda row: -row.changed)


class _InjectInOne(Inject):
    """Injects faults in one of the chosen ops: ops without a name have a label too."""

    def __init__(self, op: str, **options: Any) -> None:
        super().__init__(**options)
        self.op = op

    def sites(self, instrumentation: Instrumentation) -> list[Site]:
        """The chosen op of this label."""
        found = super().sites(instrumentation)
        return [site for site in found if site.label == self.op]


def _ops_of(graph: Graph, options: Mapping[str, Any]) -> list[str]:
    """The labels of the ops that an injection would choose."""
    labels: list[str] = []

    class Collector(Inject):
        """Collects the ops, and changes nothing."""

        def instrument(self, instrumentation: Instrumentation) -> None:
            labels.extend(site.label for site in self.sites(instrumentation))

    apply(graph, Collector(**options))
    return labels


def _compare(found: Sequence[Any], expected: Sequence[Any]) -> tuple[float, float]:
    first, exact = np.asarray(found[0]), np.asarray(expected[0])
    difference = np.abs(first.astype("float64") - exact)
    error = float(np.max(np.nan_to_num(difference, nan=np.inf, posinf=np.inf)))
    scale = float(np.max(np.abs(exact))) or 1.0
    if first.ndim < 2:
        return error / scale, float(error > 0)
    changed = np.nan_to_num(first).argmax(-1) != exact.argmax(-1)
    return error / scale, float(np.mean(changed))


def _accuracy(result: Any, labels: Sequence[int]) -> float:
    found = np.nan_to_num(np.asarray(result))
    if found.ndim < 2 or len(found) != len(labels):
        raise UsageError(
            "there is a label for each row of the first result",
            expected=f"{len(found) if found.ndim else 0} labels",
            got=f"{len(labels)} labels",
        )
    return float(np.mean(found.argmax(-1) == np.asarray(labels)))


def _read_trials(
    file: str | Path | None, options: Mapping[str, Any]
) -> Iterator[Trial]:
    """The trials in a file of the same options; UsageError for other options."""
    if file is None or not Path(file).exists():
        return
    for number, line in enumerate(Path(file).read_text("utf-8").splitlines()):
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the last line of a campaign that was interrupted
        if number == 0 and row.get("options") != _as_json_data(options):
            raise UsageError(
                "the file has trials of other options",
                where=str(file),
                expected=json.dumps(_as_json_data(options)),
                got=json.dumps(row.get("options")),
                hint="choose another file for this campaign",
            )
        if "op" in row:
            yield Trial(**row)


def _as_json_data(options: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(dict(sorted(options.items())), default=list))


def _append_trial(
    file: str | Path | None, trial: Trial, options: Mapping[str, Any]
) -> None:
    if file is None:
        return
    text = Path(file)
    is_new = not text.exists() or not text.read_bytes()
    is_cut = not is_new and not text.read_bytes().endswith(b"\n")
    with text.open("a", encoding="utf-8") as target:
        if is_new:
            target.write(json.dumps({"options": _as_json_data(options)}) + "\n")
        target.write("\n" * is_cut + json.dumps(trial._asdict()) + "\n")
