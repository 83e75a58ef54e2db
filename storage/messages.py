"""Messages as rows: adding, reading branches, deleting with exact undo. Every function works inside the caller's transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace

from app.conversation import EMPTY, Message, Run, RunStatus, ShownMessage, now
from app.errors import NotFound, RefusedInput
from storage import index, runs, tokens
from storage.keys import free_message_key
from storage.rows import RUN_COLUMNS, RUN_JOINS, Row, clean, message_of, optional_stamp, run_of, stamp
from storage.tree import Node, Trashed, Tree


def conversation_row(db: sqlite3.Connection, conversation_id: str) -> Row:
    """The row of a conversation; raises NotFound."""
    row: Row | None = db.execute("SELECT * FROM conversations WHERE id = ?", (conversation_id,)).fetchone()
    if row is None:
        raise NotFound(f"There is no conversation {conversation_id}.")
    return row


def tree(db: sqlite3.Connection, conversation: int) -> Tree:
    """The skeleton of a conversation's tree."""
    rows = db.execute(
        "SELECT key, id, parent, trashed_at IS NOT NULL FROM messages WHERE conversation = ?", (conversation,)
    )
    return Tree.of(Node(key, id_, parent, bool(trashed)) for key, id_, parent, trashed in rows)


def begin(db: sqlite3.Connection, messages: Sequence[Message], run: Run, owner: str) -> None:
    """Add messages, the last of them the empty reply that ``run`` will write, and show that reply."""
    if not messages:
        raise RefusedInput("A run needs a message to write its reply into.")
    reply = messages[-1]
    conversation = conversation_row(db, reply.conversation_id)
    key = 0
    for message in messages:
        if message.conversation_id != reply.conversation_id:
            raise RefusedInput("The messages of one run belong to one conversation.")
        key = insert(db, conversation["key"], message, _live_parent(db, conversation, message.parent_id))
    runs.insert(db, key, replace(run, message_id=reply.id), owner=owner)
    index.add(db, [_key(db, message.id) for message in messages[:-1]])
    _show(db, conversation["key"], reply.id)


def add(db: sqlite3.Connection, message: Message, run: Run | None) -> None:
    """Add one finished message with its run and show it; raises NotFound."""
    conversation = conversation_row(db, message.conversation_id)
    key = insert(db, conversation["key"], message, _live_parent(db, conversation, message.parent_id))
    if run is not None:
        runs.insert(db, key, _ended(replace(run, message_id=message.id)), owner=None)
    index.add(db, [key])
    _show(db, conversation["key"], message.id)


def _show(db: sqlite3.Connection, conversation: int, leaf_id: str) -> None:
    db.execute(
        "UPDATE conversations SET shown_leaf = ?, updated_at = ? WHERE key = ?", (leaf_id, stamp(now()), conversation)
    )


def insert(db: sqlite3.Connection, conversation: int, message: Message, parent: int | None) -> int:
    """Add one message (without its run) and return its key. It isn't in the index yet."""
    key = free_message_key(db, message.created_at, conversation)
    db.execute(
        "INSERT INTO messages (key, id, conversation, parent, role, created_at, trashed_at, content) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            key,
            message.id,
            conversation,
            parent,
            message.role.value,
            stamp(message.created_at),
            optional_stamp(message.trashed_at),
            clean(message.content),
        ),
    )
    return key


def add_whole(
    db: sqlite3.Connection,
    conversation: int,
    messages: Sequence[Message],
    traces: Mapping[str, bytes],
    trash: Mapping[str, Trashed] = EMPTY,
) -> None:
    """Add a conversation's messages as they are, parents first, with runs that have ended. ``traces`` by run id;
    ``trash``: by id of a trashed message, how it came there."""
    keys: dict[str, int] = {}
    for message in messages:
        parent = None if message.parent_id is None else keys.get(message.parent_id)
        if message.parent_id is not None and parent is None:
            raise RefusedInput(f"Message {message.id} comes before its parent {message.parent_id}.")
        keys[message.id] = key = insert(db, conversation, message, parent)
        if message.run is not None:
            runs.insert(db, key, _ended(message.run), owner=None, trace=traces.get(message.run.id))
    for message in messages:
        if message.trashed_at is not None:
            how = trash.get(message.id, Trashed(message.id))
            db.execute(
                "UPDATE messages SET trashed_with = ?, shown_before = ?, shown_instead = ? WHERE key = ?",
                (keys.get(how.root_id, keys[message.id]), how.shown_before, how.shown_instead, keys[message.id]),
            )
    index.add(db, keys.values())


def _ended(run: Run) -> Run:
    """A copy of a run that nobody works on: one that was under way when it was copied was interrupted."""
    return run if run.status.final else replace(run, status=RunStatus.INTERRUPTED, finished_at=run.finished_at or now())


def get(db: sqlite3.Connection, message_id: str) -> Message:
    """One message with its run; raises NotFound."""
    row = _row(db, message_id)
    skeleton = tree(db, row["conversation"])
    return _load(db, [row["key"]], row["conversation_id"], skeleton)[row["key"]]


def branch(db: sqlite3.Connection, conversation_id: str, leaf_id: str | None) -> tuple[ShownMessage, ...]:
    """From the root to a leaf (default: the shown one), without trashed messages; raises NotFound."""
    conversation = conversation_row(db, conversation_id)
    skeleton = tree(db, conversation["key"])
    leaf = skeleton.shown(conversation["shown_leaf"]) if leaf_id is None else _node(skeleton, leaf_id).key
    path = [] if leaf is None else skeleton.path(leaf)
    loaded = _load(db, path, conversation_id, skeleton)
    return tuple(
        ShownMessage(
            loaded[key], tuple(skeleton.nodes[sibling].id for sibling in skeleton.children(skeleton.parent(key)))
        )
        for key in path
    )


def whole(db: sqlite3.Connection, conversation_id: str) -> tuple[tuple[Message, ...], Mapping[str, Trashed]]:
    """All messages of a conversation, trashed ones too, parents first and with their parents as stored, and how the trashed ones
    came into the trash: what ``add_whole`` takes."""
    key = conversation_row(db, conversation_id)["key"]
    skeleton = tree(db, key)
    loaded = _load(db, list(skeleton.nodes), conversation_id, skeleton)
    nodes = skeleton.nodes
    messages = tuple(
        replace(loaded[key], parent_id=None if node.parent is None else nodes[node.parent].id)
        for key, node in nodes.items()
    )
    rows = db.execute(
        """SELECT m.id, coalesce(r.id, m.id), m.shown_before, m.shown_instead FROM messages m
           LEFT JOIN messages r ON r.key = m.trashed_with WHERE m.conversation = ? AND m.trashed_at IS NOT NULL""",
        (key,),
    )
    return messages, {id_: Trashed(*how) for id_, *how in rows}


def leaf_under(db: sqlite3.Connection, message_id: str) -> str:
    """The newest leaf below a message; raises NotFound."""
    skeleton = tree(db, _row(db, message_id)["conversation"])
    leaf = skeleton.newest_leaf(_node(skeleton, message_id).key)
    return message_id if leaf is None else skeleton.nodes[leaf].id


def trash(db: sqlite3.Connection, message_id: str, *, subtree: bool) -> None:
    """Move a message, or it and all below it, to the trash; a trashed one is left alone. Raises NotFound."""
    row = _row(db, message_id)
    skeleton = tree(db, row["conversation"])
    if row["trashed_at"] is not None:
        return
    keys = list(skeleton.below(row["key"])) if subtree else [row["key"]]
    index.remove(db, keys)
    at = stamp(now())
    db.executemany(
        "UPDATE messages SET trashed_at = ?, trashed_with = ? WHERE key = ?", [(at, row["key"], key) for key in keys]
    )
    _move_shown_leaf(db, row, keys)


def _move_shown_leaf(db: sqlite3.Connection, trashed: Row, keys: Sequence[int]) -> None:
    """Show what is nearest when the shown leaf has just gone, and remember it for undo."""
    conversation = db.execute("SELECT * FROM conversations WHERE key = ?", (trashed["conversation"],)).fetchone()
    skeleton = tree(db, trashed["conversation"])
    shown = skeleton.find(conversation["shown_leaf"] or "")
    if shown is None or shown.key not in keys:
        return
    leaf = skeleton.shown(shown.id)
    instead = None if leaf is None else skeleton.nodes[leaf].id
    db.execute(
        "UPDATE messages SET shown_before = ?, shown_instead = ? WHERE key = ?", (shown.id, instead, trashed["key"])
    )
    db.execute("UPDATE conversations SET shown_leaf = ? WHERE key = ?", (instead, trashed["conversation"]))


def restore(db: sqlite3.Connection, message_id: str) -> None:
    """Undo ``trash`` of this message; one that isn't trashed is left alone. Raises NotFound."""
    row = _row(db, message_id)
    if row["trashed_at"] is None:
        return
    _show_again(db, row)
    if row["trashed_with"] == row["key"]:
        keys = [
            key
            for (key,) in db.execute(
                "SELECT key FROM messages WHERE conversation = ? AND trashed_with = ?",
                (row["conversation"], row["key"]),
            )
        ]
    else:
        keys = [row["key"]]
    db.executemany(
        "UPDATE messages SET trashed_at = NULL, trashed_with = NULL, shown_before = NULL, shown_instead = NULL WHERE key = ?",
        [(key,) for key in keys],
    )
    index.add(db, keys)


def _show_again(db: sqlite3.Connection, trashed: Row) -> None:
    """Show the leaf again that went with a message, unless the user has moved elsewhere in the meantime."""
    if trashed["shown_before"] is not None:
        db.execute(
            "UPDATE conversations SET shown_leaf = ? WHERE key = ? AND shown_leaf IS ?",
            (trashed["shown_before"], trashed["conversation"], trashed["shown_instead"]),
        )


def _row(db: sqlite3.Connection, message_id: str) -> Row:
    row: Row | None = db.execute(
        "SELECT m.*, c.id AS conversation_id FROM messages m JOIN conversations c ON c.key = m.conversation WHERE m.id = ?",
        (message_id,),
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no message {message_id}.")
    return row


def _key(db: sqlite3.Connection, message_id: str) -> int:
    return int(_row(db, message_id)["key"])


def _node(skeleton: Tree, message_id: str) -> Node:
    node = skeleton.find(message_id)
    if node is None:
        raise NotFound(f"There is no message {message_id} in this conversation.")
    return node


def _live_parent(db: sqlite3.Connection, conversation: Row, parent_id: str | None) -> int | None:
    """The key of the message to answer; raises NotFound when it is gone, e.g. asked for by a page that is out of date."""
    if parent_id is None:
        return None
    row = _row(db, parent_id)
    if row["conversation"] != conversation["key"]:
        raise NotFound(f"Message {parent_id} belongs to another conversation.")
    if row["trashed_at"] is not None:
        raise NotFound(
            "The message you are answering has been deleted. Reload the page to see the conversation as it is."
        )
    return int(row["key"])


_LOAD = f"""
    SELECT m.key, m.id, m.role, m.content, m.created_at, m.trashed_at, {RUN_COLUMNS}
    FROM json_each(?) wanted CROSS JOIN messages m ON m.key = wanted.value LEFT JOIN runs r ON r.message = m.key {RUN_JOINS}
"""  # noqa: S608 (columns of our own)


def _load(db: sqlite3.Connection, keys: Sequence[int], conversation_id: str, skeleton: Tree) -> dict[int, Message]:
    """Messages with their runs by key; one query however many they are."""
    loaded = {}
    known: tokens.Known = {}
    for row in db.execute(_LOAD, (json.dumps(list(keys)),)):
        parent = skeleton.parent(row["key"])
        run = run_of(row, row["id"], tokens.load(db, row["key"], known)) if row["run_key"] is not None else None
        parent_id = None if parent is None else skeleton.nodes[parent].id
        loaded[row["key"]] = message_of(row, conversation_id, parent_id, run)
    return loaded
