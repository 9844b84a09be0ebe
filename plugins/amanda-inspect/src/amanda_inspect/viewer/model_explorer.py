"""Graphs in the JSON format of Google's Model Explorer.

The format is the graph collection of `ai-edge-model-explorer` 0.1 (`graph_builder.py`):
graphs whose nodes have a namespace of groups, attributes and incoming edges. Bodies and
functions are graphs of their own, which their ops lead to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from amanda_inspect.viewer.nodes import Kind

__all__ = ["model_explorer_data"]

APART: Final = (Kind.BODY, Kind.FUNCTION)
"""Kinds of nodes that become graphs."""
GROUPS: Final = (Kind.GROUP, Kind.GRAPH)


def model_explorer_data(data: dict[str, Any]) -> dict[str, Any]:
    """The graph collection of a page; `data` is what its script reads."""
    return {"label": data["head"]["title"], "graphs": list(_Export(data).graphs())}


class _Export:
    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self._ends: list[int] = data["end"]
        self._kinds: list[int] = data["kind"]

    def _text(self, column: str, i: int) -> str:
        return str(self._data["strings"][self._data[column][i]])

    def graphs(self) -> Iterator[dict[str, Any]]:
        """A graph for the model and for each body and function."""
        for i, kind in enumerate(self._kinds):
            if not i or kind in APART:
                members = dict(self._members(i))
                nodes = [self._node(k, path, members) for k, path in members.items()]
                yield {"id": self._graph_id(i), "nodes": nodes}

    def _graph_id(self, at: int) -> str:
        parent = self._data["parent"][at]
        holder = self._text("label", parent) if parent > 0 else ""
        names = (holder, self._text("label", at), f"#{at}")
        return "/".join(filter(None, names))

    def _members(self, at: int) -> Iterator[tuple[int, str]]:
        """The ops and ports of a graph, with their namespace."""
        paths = {at: ""}
        i = at + 1
        while i < self._ends[at]:
            path = paths[self._data["parent"][i]]
            if self._kinds[i] in APART:
                i = self._ends[i]
                continue
            if self._kinds[i] in GROUPS and self._ends[i] > i + 1:
                paths[i] = f"{path}/{self._text('label', i) or 'graph'}".lstrip("/")
            else:
                paths[i] = path
                yield i, path
            i += 1

    def _node(self, i: int, path: str, members: dict[int, str]) -> dict[str, Any]:
        strings, name = self._data["strings"], self._text("name", i)
        is_port = self._kinds[i] in (Kind.PARAMETER, Kind.RESULT)
        pairs = _in_groups(self._data["attributes"][i], 2)
        attrs = [{"key": "name", "value": name}] if name else []
        attrs += [{"key": strings[k], "value": strings[v]} for k, v in pairs]
        inner = [c for c in self._children(i) if self._kinds[c] in APART]
        inner += self._data["calls"].get(i, [])
        label = name if is_port else self._text("type", i)
        return {
            "id": str(i),
            "label": label or self._text("label", i),
            "namespace": path,
            "subgraphIds": [self._graph_id(c) for c in inner],
            "attrs": attrs,
            "incomingEdges": self._edges(i, members),
            "outputsMetadata": self._outputs(i),
        }

    def _children(self, i: int) -> Iterator[int]:
        at = i + 1
        while at < self._ends[i]:
            yield at
            at = self._ends[at]

    def _edges(self, i: int, members: dict[int, str]) -> list[dict[str, str]]:
        """Edges from nodes of the same graph; a captured value has none."""
        triples = enumerate(_in_groups(self._data["inputs"][i], 3))
        return [
            {
                "sourceNodeId": str(source),
                "sourceNodeOutputId": str(max(0, port)),
                "targetNodeInputId": str(k),
            }
            for k, (source, port, _) in triples
            if source in members
        ]

    def _outputs(self, i: int) -> list[dict[str, Any]]:
        strings, found = self._data["strings"], []
        for k, (name, type) in enumerate(_in_groups(self._data["outputs"][i], 2)):
            pairs = (("tensor_name", strings[name]), ("tensor_shape", strings[type]))
            attrs = [{"key": key, "value": value} for key, value in pairs if value]
            found.append({"id": str(k), "attrs": attrs})
        return found


def _in_groups(row: list[int], size: int) -> Iterator[tuple[int, ...]]:
    """
    >>> list(_in_groups([1, 2, 3, 4], 2))
    [(1, 2), (3, 4)]
    """
    return zip(*[iter(row)] * size, strict=True)
