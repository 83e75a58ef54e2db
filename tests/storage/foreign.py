"""One small file of every format that can be imported, as the program in question writes it."""

from __future__ import annotations

from app.conversation import Json

CHATGPT: Json = [
    {
        "title": "Tea",
        "create_time": 1700000000.5,
        "update_time": 1700000100.25,
        "conversation_id": "c1",
        "current_node": "a1",
        "mapping": {
            "root": {"id": "root", "message": None, "parent": None, "children": ["sys"]},
            "sys": {
                "id": "sys",
                "parent": "root",
                "children": ["u1"],
                "message": {
                    "author": {"role": "system"},
                    "content": {"content_type": "text", "parts": [""]},
                    "metadata": {"is_visually_hidden_from_conversation": True},
                },
            },
            "u1": {
                "id": "u1",
                "parent": "sys",
                "children": ["a1", "a2"],
                "message": {
                    "author": {"role": "user"},
                    "create_time": 1700000001.0,
                    "content": {
                        "content_type": "multimodal_text",
                        "parts": ["How long?", {"content_type": "image_asset_pointer"}],
                    },
                    "metadata": {},
                },
            },
            "a1": {
                "id": "a1",
                "parent": "u1",
                "children": [],
                "message": {
                    "author": {"role": "assistant"},
                    "create_time": 1700000002.0,
                    "content": {"content_type": "text", "parts": ["Two minutes."]},
                    "metadata": {"model_slug": "gpt-4o"},
                },
            },
            "t1": {
                "id": "t1",
                "parent": "u1",
                "children": ["a2"],
                "message": {
                    "author": {"role": "tool"},
                    "content": {"content_type": "text", "parts": ["searched"]},
                    "metadata": {},
                },
            },
            "a2": {
                "id": "a2",
                "parent": "t1",
                "children": [],
                "message": {
                    "author": {"role": "assistant"},
                    "content": {"content_type": "code", "language": "python", "text": "print(1)"},
                    "metadata": {},
                },
            },
        },
    }
]

OPEN_WEBUI: Json = [
    {
        "id": "w1",
        "title": "Tea",
        "pinned": True,
        "created_at": 1700000000,
        "updated_at": 1700000100,
        "chat": {
            "title": "Tea",
            "system": "Be short.",
            "history": {
                "currentId": "m2",
                "messages": {
                    "m1": {
                        "id": "m1",
                        "parentId": None,
                        "childrenIds": ["m2", "m3"],
                        "role": "user",
                        "content": "How long?",
                        "timestamp": 1700000001,
                    },
                    "m2": {
                        "id": "m2",
                        "parentId": "m1",
                        "role": "assistant",
                        "content": "Two minutes.",
                        "model": "qwen",
                        "timestamp": 1700000002,
                    },
                    "m3": {"id": "m3", "parentId": "m1", "role": "assistant", "content": "Three.", "model": "llama"},
                },
            },
            "messages": [],
        },
    }
]

LLAMA_CPP: Json = [
    {
        "conv": {"id": "l1", "lastModified": 1700000100000, "currNode": "3", "name": "Tea"},
        "messages": [
            {
                "id": "0",
                "convId": "l1",
                "type": "root",
                "timestamp": 1700000000000,
                "role": "system",
                "content": "",
                "parent": None,
                "children": ["1"],
            },
            {
                "id": "1",
                "convId": "l1",
                "type": "text",
                "timestamp": 1700000001000,
                "role": "user",
                "content": "How long?",
                "parent": "0",
                "children": ["2", "3"],
            },
            {
                "id": "2",
                "convId": "l1",
                "type": "text",
                "timestamp": 1700000002000,
                "role": "assistant",
                "content": "Three.",
                "parent": "1",
                "children": [],
            },
            {
                "id": "3",
                "convId": "l1",
                "type": "text",
                "timestamp": 1700000003000,
                "role": "assistant",
                "content": "Two minutes.",
                "model": "qwen.gguf",
                "parent": "1",
                "children": [],
            },
        ],
    }
]

LLAMA_CPP_OLD: Json = {
    "id": "conv-1700000000000",
    "lastModified": 1700000100000,
    "messages": [
        {"id": 1700000001000, "role": "user", "content": "How long?"},
        {"id": 1700000002000, "role": "assistant", "content": "Two minutes.", "timings": {"prompt_n": 3}},
    ],
}

SHAREGPT: Json = [
    {
        "id": "s1",
        "conversations": [
            {"from": "system", "value": "Be short."},
            {"from": "human", "value": "How long?"},
            {"from": "gpt", "value": "Two minutes."},
            {"from": "tool", "value": "searched"},
        ],
    }
]

TEXT_GENERATION_WEBUI: Json = {
    "internal": [["<|BEGIN-VISIBLE-CHAT|>", "Hello!"], ["How long?", "Two minutes."]],
    "visible": [["", "Hello!"], ["How long?", "Two minutes."]],
    "metadata": {
        "user_1": {"timestamp": "Jan 31, 2025 14:05"},
        "assistant_1": {"timestamp": "Jan 31, 2025 14:06", "model_name": "qwen.gguf"},
    },
}

OPENAI: Json = {
    "messages": [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "How long?"}]},
        {"role": "assistant", "content": "Two minutes."},
    ]
}

FILES: dict[str, Json] = {
    "ChatGPT": CHATGPT,
    "Open WebUI": OPEN_WEBUI,
    "llama.cpp": LLAMA_CPP,
    "ShareGPT": SHAREGPT,
    "text-generation-webui": TEXT_GENERATION_WEBUI,
    "OpenAI messages": OPENAI,
}
