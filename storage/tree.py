"""The tree of a conversation's messages, as pure functions over a skeleton that leaves the texts on the disk.

A trashed message is transparent: its children count as its parent's. So the rows never change when something is deleted, and
undo is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Node:
    """A message without its text. ``key`` rises with time."""

    key: int
    id: str
    parent: int | None
    trashed: bool = False


@dataclass(frozen=True, slots=True)
class Trashed:
    """How a message came into the trash: the message whose deletion took it along, and, on that one, the shown leaf that the
    deletion replaced and by which."""

    root_id: str
    shown_before: str | None = None
    shown_instead: str | None = None


@dataclass(frozen=True)
class Tree:
    """All nodes of one conversation by key, in order of creation."""

    nodes: Mapping[int, Node] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Tree:
        """A tree from nodes in any order."""
        return cls({node.key: node for node in sorted(nodes, key=lambda node: node.key)})

    @cached_property
    def _keys(self) -> Mapping[str, int]:
        return {node.id: node.key for node in self.nodes.values()}

    @cached_property
    def _children(self) -> Mapping[int | None, list[int]]:
        """Live children by live parent, in order of creation."""
        children: dict[int | None, list[int]] = {}
        for node in self.nodes.values():
            if not node.trashed:
                children.setdefault(self.parent(node.key), []).append(node.key)
        return children

    def find(self, message_id: str) -> Node | None:
        """The node of that id."""
        key = self._keys.get(message_id)
        return None if key is None else self.nodes[key]

    def parent(self, key: int) -> int | None:
        """The nearest ancestor that isn't trashed."""
        parent = self.nodes[key].parent
        while parent is not None and self.nodes[parent].trashed:
            parent = self.nodes[parent].parent
        return parent

    def children(self, key: int | None) -> list[int]:
        """The live children of a message (None: the roots), oldest first."""
        return self._children.get(key, [])

    def path(self, key: int) -> list[int]:
        """From the root to a message, without trashed ones."""
        path: list[int] = []
        step: int | None = self.visible(key)
        while step is not None:
            path.append(step)
            step = self.parent(step)
        return path[::-1]

    def visible(self, key: int) -> int | None:
        """The message itself, or its nearest live ancestor when it is trashed."""
        return self.parent(key) if self.nodes[key].trashed else key

    def newest_leaf(self, key: int | None) -> int | None:
        """The newest leaf at or below a message (None: of the whole tree); None for an empty tree."""
        leaves = [below for below in self.below(key) if not self.children(below)]
        return max(leaves, default=key)

    def below(self, key: int | None) -> Iterator[int]:
        """A message (unless None) and all live ones below it."""
        todo = list(self.children(key)) if key is None else [key]
        while todo:
            step = todo.pop()
            yield step
            todo.extend(self.children(step))

    def shown(self, leaf_id: str | None) -> int | None:
        """The end of the branch on display: the remembered leaf if it is still there, else the newest leaf near it."""
        node = self.find(leaf_id) if leaf_id else None
        if node is None:
            return self.newest_leaf(None)
        return self.newest_leaf(self.parent(node.key)) if node.trashed else node.key
