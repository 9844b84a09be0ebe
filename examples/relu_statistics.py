"""A tool of one's own: histograms of activations, and norms of their gradients.

    python examples/relu_statistics.py model.onnx

It works on models of every framework and on every backend: both are reduced where the
model runs, and only the histogram and the norm leave it.
"""

import sys

import amanda
from amanda.feeds import generate_feeds
from amanda.instrument import GradientSite, Site, Tool, on_gradient, on_op
from amanda_std import ops


class ReluStatistics(Tool):
    """A histogram of each ReLU, and the norm of the gradient of its output."""

    name = "relu-statistics"

    @on_op(type="relu")
    def histogram(self, site: Site) -> None:
        counts = ops.histogram(site.output, 0.0, 40.0, 8)
        site.observe("histogram from 0 to 40", counts, combine="sum")

    @on_gradient(type="relu")
    def gradient_norm(self, site: GradientSite) -> None:
        squares = ops.multiply(site.gradient, site.gradient)
        site.observe("gradient norm", ops.sqrt(ops.sum(squares)), combine="mean")


def main(path: str) -> None:
    model = amanda.load(path)
    instrumented = amanda.apply(model, ReluStatistics())
    run = instrumented.compile("numpy")
    for seed in range(3):
        run(generate_feeds(model, seed=seed))
    print(instrumented.report)


if __name__ == "__main__":
    main(*sys.argv[1:])
