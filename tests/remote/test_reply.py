"""A reply from a server as its reader gets it, and what the server was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from app.chat import Chat
from app.conversation import FinishReason, Run, RunStatus
from app.engine.events import TextDelta
from app.errors import RefusedInput
from tests.remote.conftest import Choose
from tests.remote.fake_server import Asked, FakeServer, Json, ending, piece, say, token
from tests.runs.whole import check_log


def reply(chat: Chat, text: str = "hello", **asked: Any) -> Run:
    """Send, wait, and give the run as it is stored."""
    started = chat.send(text, requested=asked)
    ended = started.run.result(60)
    check_log(started.run)
    assert chat.wait_until_kept(started.run.id)
    stored = chat.store.run(started.run.id)
    assert chat.store.message(started.reply.id).content == ended.text
    return stored


def text_of(chat: Chat, run: Run) -> str:
    return chat.store.message(run.message_id).content


def test_text_comes_piece_by_piece_and_ends_with_the_servers_figures(choose: Choose, server: FakeServer) -> None:
    def answer(asked: Asked, _body: Json) -> None:
        asked.begin()
        asked.event(piece("Hello"))
        server.gate.wait(30)
        say_rest(asked)

    def say_rest(asked: Asked) -> None:
        asked.event(piece(" there"))
        asked.event(ending())
        asked.event({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 2}})
        asked.event("[DONE]")

    server.answer = answer
    chat = choose()
    started = chat.send("hi")
    first = next(event for _, event in started.run.events() if isinstance(event, TextDelta))
    assert first.text == "Hello"
    assert started.run.ended is None
    server.gate.set()
    ended = started.run.result(60)
    assert (ended.text, ended.run.status, ended.run.finish_reason) == ("Hello there", RunStatus.DONE, FinishReason.EOS)
    assert (ended.run.stats.prompt_tokens, ended.run.stats.new_tokens) == (11, 2)
    assert ended.run.stats.ttft_s is not None


def test_the_conversation_is_sent_and_only_what_was_set(choose: Choose, server: FakeServer) -> None:
    chat = choose()
    first = chat.send("one", system_prompt="Be brief.", requested={"seed": 7})
    first.run.result(60)
    second = chat.send("two", conversation_id=first.conversation.id, requested={"temperature": 0.5, "seed": 8})
    second.run.result(60)
    body = server.asked[-1]
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "Hello there."},
        {"role": "user", "content": "two"},
    ]
    assert body == {
        "model": "small",
        "messages": body["messages"],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 1024,
        "temperature": 0.5,
        "seed": 8,
        "logprobs": True,
        "top_logprobs": 20,
    }


def test_a_drawn_seed_is_sent_and_recorded(choose: Choose, server: FakeServer) -> None:
    run = reply(choose())
    assert server.asked[-1]["seed"] == run.seed == run.effective["seed"]


def test_greedy_is_sent_as_temperature_0(choose: Choose, server: FakeServer) -> None:
    run = reply(choose(), do_sample=False, top_p=0.5)
    assert server.asked[-1]["temperature"] == 0
    assert "top_p" not in server.asked[-1]
    assert any(note.startswith("top_p: Ignored") for note in run.notes)


def test_what_vllm_adds_is_sent_by_its_names(choose: Choose, vllm: FakeServer) -> None:
    asked: dict[str, Any] = {
        "top_k": 5,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "min_new_tokens": 2,
        "eos_token_id": [7],
        "bad_words_ids": ["never"],
        "sequence_bias": [[[3], 2.0]],
        "output_format": {"kind": "regex", "pattern": "[a-z]+"},
    }
    run = reply(choose(), **asked)
    body = vllm.asked[-1]
    assert {name: body[name] for name in ("top_k", "min_p", "repetition_penalty", "min_tokens")} == {
        "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "min_tokens": 2,
    }  # fmt: skip
    assert (body["stop_token_ids"], body["bad_words"], body["logit_bias"]) == ([7], ["never"], {"3": 2.0})
    assert body["structured_outputs"] == {"regex": "[a-z]+"}
    assert run.notes == ()


def test_a_plain_server_gets_none_of_it_and_the_reply_says_why(choose: Choose, server: FakeServer) -> None:
    run = reply(choose(), top_k=5, num_beams=3)
    assert "top_k" not in server.asked[-1]
    assert run.effective["top_k"] == 0
    notes = " ".join(run.notes)
    assert "top_k: Ignored: it isn't part of the OpenAI interface" in notes
    assert "num_beams: Ignored" in notes
    assert run.explained["top_k"]["available"] is False


def test_stop_strings_are_found_across_pieces_and_not_shown(choose: Choose, server: FakeServer) -> None:
    def answer(asked: Asked, _body: Json) -> None:
        asked.begin()
        for part in ("one EN", "D two", " three"):
            asked.event(piece(part))
        asked.until_closed()

    server.answer = answer
    run = reply(choose(), stop_strings=["END"])
    assert run.finish_reason is FinishReason.STOP_STRING
    assert server.closed.wait(30)


def test_the_limit_of_tokens_is_told_as_such(choose: Choose, server: FakeServer) -> None:
    server.answer = say("cut", reason="length")
    assert reply(choose(), max_new_tokens=1).finish_reason is FinishReason.LENGTH


def test_time_ends_a_reply_and_keeps_what_had_come(choose: Choose, server: FakeServer) -> None:
    def answer(asked: Asked, _body: Json) -> None:
        asked.begin()
        asked.event(piece("slow"))
        asked.until_closed()

    server.answer = answer
    chat = choose()
    run = reply(chat, max_time=0.3)
    assert (run.finish_reason, run.status, text_of(chat, run)) == (FinishReason.TIME, RunStatus.DONE, "slow")
    assert server.closed.wait(30)


def test_several_replies_become_siblings(choose: Choose, server: FakeServer) -> None:
    server.answer = say(piece("red", 0), piece("blue", 1), ending(index=0), ending(index=1), reason="")
    chat = choose()
    run = reply(chat, num_return_sequences=2)
    assert server.asked[-1]["n"] == 2
    conversation = chat.store.message(run.message_id).conversation_id
    shown = chat.store.branch(conversation)[-1]
    assert {chat.store.message(one).content for one in shown.siblings} == {"red", "blue"}


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_thinking_that_comes_apart_is_kept_as_thinking_and_not_sent_back(
    choose: Choose, server: FakeServer, field: str
) -> None:
    server.answer = say(piece(delta={field: "Hmm, "}), piece(delta={field: "yes."}), "Paris", ".")
    chat = choose()
    started = chat.send("capital?")
    ended = started.run.result(60)
    kinds = [(event.kind, event.text) for _, event in started.run.read() if isinstance(event, TextDelta)]
    assert "".join(text for kind, text in kinds if kind == "thinking") == "Hmm, yes."
    assert "".join(text for kind, text in kinds if kind == "answer").strip() == "Paris."
    assert ended.text == "<think>\nHmm, yes.\n</think>\n\nParis."
    chat.send("and?", conversation_id=started.conversation.id).run.result(60)
    assert server.asked[-1]["messages"][1] == {"role": "assistant", "content": "Paris."}


def test_vllm_goes_on_with_a_reply(choose: Choose, vllm: FakeServer) -> None:
    vllm.answer = say("One", " two", reason="length")
    chat = choose()
    first = reply(chat)
    vllm.answer = say(" three")
    more = chat.continue_reply(first.message_id)
    assert more.run.result(60).text == "One two three"
    body = vllm.asked[-1]
    assert body["messages"][-1] == {"role": "assistant", "content": "One two"}
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)


def test_a_plain_server_cannot_go_on_and_nothing_is_stored(choose: Choose, server: FakeServer) -> None:
    chat = choose()
    first = reply(chat)
    with pytest.raises(RefusedInput, match="can't go on"):
        chat.continue_reply(first.message_id)
    assert len(server.asked) == 1


def test_a_server_that_does_not_stream_is_understood(choose: Choose, server: FakeServer) -> None:
    message = {"index": 0, "message": {"role": "assistant", "content": "At once."}, "finish_reason": "stop"}
    server.answer = lambda asked, _body: asked.whole({"choices": [message], "usage": {"completion_tokens": 3}})
    chat = choose()
    run = reply(chat)
    assert (text_of(chat, run), run.stats.new_tokens) == ("At once.", 3)


def test_what_a_server_does_not_take_is_left_out(choose: Choose, server: FakeServer) -> None:
    """Corners of the interface that differ: probabilities, the seed, the name of the limit."""

    def picky(asked: Asked, body: Json) -> None:
        for field, said in (
            ("logprobs", "logprobs are not available for this model"),
            ("max_tokens", "Unsupported parameter: use 'max_completion_tokens' instead."),
            ("seed", "seed: Extra inputs are not permitted"),
        ):
            if field in body:
                asked.refuse(400, {"error": {"message": said}})
                return
        say("fine")(asked, body)

    server.answer = picky
    chat = choose()
    run = reply(chat)
    assert text_of(chat, run) == "fine", run.error
    assert server.asked[-1]["max_completion_tokens"] == 1024
    assert set(run.notes) == {"The server gives no probabilities of tokens.", "The server takes no seed."}


def test_probabilities_become_a_trace(choose: Choose, server: FakeServer) -> None:
    def logged(text: str, *entries: Json) -> Json:
        return piece(text, logprobs={"content": list(entries)})

    server.answer = say(
        logged("Par", token("Par", 0.5, ("Lon", 0.25))), logged("is", token("is", 0.2, ("ish", 0.7))), usage=None
    )
    chat = choose()
    run = reply(chat)
    packed = chat.store.trace(run.id)
    assert packed is not None
    from app.engine.trace import Trace

    trace = Trace.unpack(packed)
    assert [trace.texts[i] for i in trace.chosen] == [b"Par", b"is"]
    assert trace.raw_probability.tolist() == pytest.approx([0.5, 0.2], abs=1e-6)
    assert trace.rank.tolist() == [0, 1]
    assert [[trace.texts[i] for i in row] for row in trace.ids] == [[b"Par", b"Lon"], [b"ish", b"is"]]
    assert run.stats.new_tokens == 2
