"""What must hold of every run, however it ended."""

from __future__ import annotations

from app.chat import Chat, Started
from app.conversation import Run, RunStatus
from app.engine.events import Ended, TextDelta
from app.engine.run import LiveRun

AGAIN = {"max_new_tokens": 3, "min_new_tokens": 3, "seed": 1}


def streamed(run: LiveRun, index: int = 0) -> str:
    """The text of one sequence as its readers got it."""
    return "".join(e.text for _, e in run.read() if isinstance(e, TextDelta) and e.index == index)


def check_log(run: LiveRun) -> Ended:
    """One end, at the end; numbers without a gap; the streamed text is the text."""
    log = run.read()
    assert [number for number, _ in log] == list(range(1, len(log) + 1))
    ends = [event for _, event in log if isinstance(event, Ended)]
    assert ends == [log[-1][1]]
    assert ends[0].text == streamed(run)
    assert [sibling.text for sibling in ends[0].siblings] == [
        streamed(run, index) for index in range(1, len(ends[0].siblings) + 1)
    ]
    assert ends[0].run.status is run.status
    return ends[0]


def check_whole(chat: Chat, started: Started) -> Run:
    """The run has come to one end, which is in the store as its readers saw it; nothing of it is left behind, and the conversation
    goes on. Returns the run as stored."""
    started.run.result(120)
    ended = check_log(started.run)
    assert chat.wait_until_kept(started.run.id)
    stored = chat.store.run(started.run.id)
    assert chat.store.message(started.reply.id).content == ended.text
    assert (stored.status, stored.finish_reason, stored.error) == (
        ended.run.status,
        ended.run.finish_reason,
        ended.run.error,
    )
    assert stored.output_ids == ended.run.output_ids
    check_next(chat, started.conversation.id, started.reply.id)
    return stored


def check_next(chat: Chat, conversation_id: str, reply_id: str) -> None:
    """The next message is answered, by a model that sees the reply as far as it got; then nobody is waiting."""
    following = chat.send("and now", conversation_id=conversation_id, parent_id=reply_id, requested=AGAIN)
    ended = following.run.result(120)
    assert ended.run.status is RunStatus.DONE, ended.run.error
    check_log(following.run)
    assert chat.wait_until_kept(following.run.id)
    desk = chat.engine.desk
    assert desk is not None
    assert chat.store.message(reply_id).content in desk.decode(ended.run.prompt_ids)
    assert chat.engine.queue() == ()
