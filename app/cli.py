"""The ``fader`` command: the only place that puts store, models, engine and page together.

Heavy libraries are imported inside the commands that need them, so that help and small commands answer at once.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands.output import StepPrinter, exit_codes, print_json
from app.garbage import importing
from app.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.chat import Chat
    from app.conversation import Json
    from app.models.service import ModelService
    from storage.conversations import Store

app = typer.Typer(
    name="fader",
    help="Chat with a language model on your own machine, and see and control how it picks its words.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
models_app = typer.Typer(
    help="What models are here, what they need, and what they really are once loaded.", no_args_is_help=True
)
app.add_typer(models_app, name="models")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
HowLoaded = Annotated[
    list[str] | None,
    typer.Option("-o", help="name=value: how it is loaded this time; “fader models settings” lists them."),
]
ModelName = Annotated[str | None, typer.Option("--model", help="builtin, a hub id, a local folder or a GGUF file.")]


TensorParallel = Annotated[
    int | None,
    typer.Option(
        "--tensor-parallel",
        min=1,
        max=64,
        metavar="N",
        help="Spread the model over N processes, in 16 bits; one graphics card each where there are cards.",
    ),
]


SPREAD = "The model is spread over {size} processes, in 16 bits: 4-bit weights can't be spread yet."

# -- parts ---------------------------------------------------------------------------------------------------------------


def make_store(settings: Settings) -> Store:
    """The conversations of this data folder; what the user must know about them goes to stderr."""
    from storage import open_store

    store = open_store(settings.home)
    for notice in store.notices:
        typer.echo(f"note: {notice}", err=True)
    return store


def make_models(settings: Settings) -> ModelService:
    """Loading and freeing of models."""
    from app.models.service import ModelService

    return ModelService(settings)


def settings_with(**chosen: Json) -> Settings:
    """The settings, with what the command line says otherwise."""
    given = {name: value for name, value in chosen.items() if value is not None}
    return Settings.model_validate({**Settings().model_dump(), **given})


@contextmanager
def chat_of(settings: Settings) -> Iterator[Chat]:
    """Store, engine and use cases, closed in order at the end."""
    from app.chat import Chat
    from app.engine.engine import Engine

    if settings.tensor_parallel > 1:
        typer.echo(f"note: {SPREAD.format(size=settings.tensor_parallel)}", err=True)
    chat = Chat(make_store(settings), Engine(make_models(settings), settings), settings)
    try:
        yield chat
    finally:
        chat.close()


# -- commands ------------------------------------------------------------------------------------------------------------


@app.command()
def run(
    *,
    host: Annotated[
        str | None, typer.Option(help="Address to serve on; anything but loopback needs FADER_PASSWORD.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port; the next free one is taken if it is in use.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Don't open a browser.")] = False,
    model: ModelName = None,
    tensor_parallel: TensorParallel = None,
) -> None:
    """Start the page and load the model behind it."""
    from app.distributed.follower import follow_torchrun

    settings = settings_with(host=host, port=port, model=model, tensor_parallel=tensor_parallel)
    with exit_codes():
        if follow_torchrun(settings.tensor_parallel):
            return
    with exit_codes(), chat_of(settings) as chat:
        chat.engine.load(settings.model)
        with importing:
            from ui.serve import serve
        serve(chat, settings, open_browser=not no_browser)


@app.command()
def ask(
    text: Annotated[str, typer.Argument(help="The message; - reads it from standard input.")],
    *,
    system: Annotated[str | None, typer.Option(help="System prompt.")] = None,
    model: ModelName = None,
    draft: Annotated[
        str | None, typer.Option(help="A small model that drafts for the other (assisted generation).")
    ] = None,
    conversation: Annotated[str | None, typer.Option(help="Go on with this conversation.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Decides all random choices; drawn and recorded if not given.")
    ] = None,
    parameter: Annotated[list[str] | None, typer.Option("-p", help="name=value, value as JSON or plain text.")] = None,
    tensor_parallel: TensorParallel = None,
    as_json: AsJson = False,
) -> None:
    """Send one message and print the reply."""
    from app.commands import ask as command
    from app.parameters.validate import parse_assignment

    with exit_codes():
        requested: dict[str, Json] = dict(parse_assignment(text) for text in parameter or ())
        if seed is not None:
            requested["seed"] = seed
        with chat_of(settings_with(tensor_parallel=tensor_parallel)) as chat:
            if draft:
                command.loaded(chat.engine.load(model or chat.settings.model))
                command.loaded(chat.engine.load_draft(draft))
            started = chat.send(
                sys.stdin.read() if text == "-" else text,
                conversation_id=conversation,
                requested=requested,
                system_prompt=system,
                model=model or chat.settings.model,
                inherit=True,
            )
            try:
                ended = started.run.result() if as_json else command.stream(started)
            except KeyboardInterrupt:
                started.run.cancel()
                ended = started.run.result()
            name = chat.engine.status().name
        if as_json:
            print_json(command.as_json(started, ended, name))
        command.raise_if_failed(ended)


@app.command()
def replay(
    run_id: Annotated[str, typer.Argument(metavar="RUN")], *, model: ModelName = None, as_json: AsJson = False
) -> None:
    """Run a stored reply again from its prompt, parameters and seed, and say whether it comes out the same."""
    from app.commands import keeping

    with exit_codes(), chat_of(Settings()) as chat:
        stored = chat.store.run(run_id)
        name = model or stored.model_fingerprint.get("name") or chat.settings.model
        result = chat.check_replay(run_id, chat.replay(run_id, model=name))
        if as_json:
            print_json(result.as_json())
        else:
            typer.echo(keeping.replay_sentence(result))


@app.command()
def search(query: Annotated[str, typer.Argument()], *, limit: int = 20, as_json: AsJson = False) -> None:
    """Find conversations by words and filters (model:, after:, before:, has:error, param:temperature>1)."""
    from app.commands import keeping

    with exit_codes(), _store_only() as store:
        found = store.conversations(query, limit=limit)
        if as_json:
            print_json([keeping.hit_json(hit) for hit in found.hits])
        else:
            typer.echo(keeping.hit_lines(found))


@app.command("export")
def export_(
    file: Annotated[Path, typer.Argument(help="Ends in .json (lossless), .md, .html or .jsonl.")],
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]…", help="All when none is given.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Write conversations to a file."""
    with exit_codes(), _store_only() as store:
        store.export_file(file, ids or None)
        _done({"file": str(file), "conversations": ids or "all"}, f"Exported to {file}.", as_json=as_json)


@app.command("import")
def import_(file: Annotated[Path, typer.Argument()], *, as_json: AsJson = False) -> None:
    """Add the conversations of a file (Fader, ChatGPT, Open WebUI, text-generation-webui, llama.cpp, ShareGPT)."""
    from app.commands import keeping

    with exit_codes(), _store_only() as store:
        report = store.import_file(file)
        _done(report.as_json(), keeping.import_lines(report), as_json=as_json)


@app.command()
def backup(file: Annotated[Path, typer.Argument()], *, as_json: AsJson = False) -> None:
    """Copy the database to a new file, also while Fader is running."""
    with exit_codes(), _store_only() as store:
        store.backup(file)
        _done({"file": str(file), "bytes": file.stat().st_size}, f"Backed up to {file}.", as_json=as_json)


@app.command()
def restore(file: Annotated[Path, typer.Argument()], *, as_json: AsJson = False) -> None:
    """Put a backup in the place of the conversations, which are copied first."""
    from storage import restore as put_back

    with exit_codes():
        notices = put_back(Settings().home, file)
        _done({"file": str(file), "notices": list(notices)}, "\n".join(notices), as_json=as_json)


@contextmanager
def _store_only() -> Iterator[Store]:
    store = make_store(Settings())
    try:
        yield store
    finally:
        store.close()


def _done(value: Json, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        typer.echo(sentence)


@app.command()
def params(*, as_json: AsJson = False) -> None:
    """List every parameter with its range, its off value and when it applies."""
    from app.commands.listing import parameter_table
    from app.parameters.table import describe

    rows = describe()
    if as_json:
        print_json(rows)
    else:
        typer.echo(parameter_table(rows))


@app.command()
def doctor(*, as_json: AsJson = False) -> None:
    """Check Python, libraries, folders, the database and the built-in model."""
    from app.commands.doctor import checks, report

    found = checks(Settings(), _check_store)
    if as_json:
        print_json(found)
    else:
        typer.echo(report(found))
    if not all(check["ok"] for check in found):
        raise typer.Exit(1)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def bench(context: typer.Context) -> None:
    """Measure Fader on this machine (parts: decode, streaming, starting, storage; --help tells more)."""
    from app.commands import bench as command

    with exit_codes():
        raise typer.Exit(command.run(context.args))


def _check_store(settings: Settings) -> str:
    store = make_store(settings)
    store.close()
    return str(settings.database)


@models_app.command("list")
def models_list(*, as_json: AsJson = False) -> None:
    """Models that are here: built-in, prepared, local, in the hub cache."""
    from app.commands.listing import model_table

    rows = make_models(Settings()).list()
    if as_json:
        print_json(rows)
    else:
        typer.echo(model_table(rows))


@models_app.command("estimate")
def models_estimate(
    name: Annotated[str, typer.Argument()] = "builtin", *, how: HowLoaded = None, as_json: AsJson = False
) -> None:
    """What a model will need, against what is free; nothing is loaded."""
    from app.commands.loads import tried

    with exit_codes():
        models = make_models(Settings())
        estimate = models.estimate(name, tried(models, name, how))
        if as_json:
            print_json(estimate)
        else:
            typer.echo(estimate["verdict"])


@models_app.command("load")
def models_load(
    name: Annotated[str, typer.Argument()] = "builtin",
    *,
    how: HowLoaded = None,
    tensor_parallel: TensorParallel = None,
    as_json: AsJson = False,
) -> None:
    """Load a model, report what it really is, and free it again."""
    from app.commands.listing import load_report
    from app.commands.loads import tried

    with exit_codes(), _steps() as steps:
        models = make_models(settings_with(tensor_parallel=tensor_parallel))
        report = models.measure(name, progress=steps, options=tried(models, name, how))
        steps.close()
        if as_json:
            print_json(report)
        else:
            typer.echo(load_report(report))


@models_app.command("unload")
def models_unload(*, as_json: AsJson = False) -> None:
    """Free the model of the Fader that is running on this data folder."""
    from app.beacon import post

    with exit_codes():
        _done(post(Settings().home, "/api/model/unload"), "The model was unloaded.", as_json=as_json)


@models_app.command("prepare")
def models_prepare(
    name: Annotated[str, typer.Argument()] = "builtin", *, how: HowLoaded = None, as_json: AsJson = False
) -> None:
    """Quantize a model once and keep it in the cache folder, so that later starts take seconds."""
    from app.commands.loads import tried

    with exit_codes(), _steps() as steps:
        models = make_models(Settings())
        prepared = models.prepare(name, progress=steps, options=tried(models, name, how))
        steps.close()
        _done(prepared, f"{name} is prepared: {prepared['folder']}", as_json=as_json)


@models_app.command("settings")
def models_settings(
    name: Annotated[str, typer.Argument()] = "builtin",
    *,
    how: Annotated[list[str] | None, typer.Option("-o", help="name=value: load it like this from now on.")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Back to the defaults.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show how a model is loaded, or choose it for the next starts: quantization, compute dtype, attention, device."""
    from app.commands.loads import options_with, settings_json, settings_lines
    from app.models.options import LoadOptions

    with exit_codes():
        models = make_models(Settings())
        options = options_with(LoadOptions() if reset else models.options(name), how or ())
        if reset or how:
            models.choose(name, options)
        rows = settings_json(options)
        _done(rows, settings_lines(rows), as_json=as_json)


@models_app.command("remove")
def models_remove(
    name: Annotated[
        str | None, typer.Argument(metavar="[COPY]", help="A copy’s or a model’s name; none: list.")
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don’t ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the prepared copies with their sizes, or delete one; a model’s own files are never touched."""
    from app.commands.loads import agreed, copies_lines, copies_named
    from app.commands.output import human_bytes

    with exit_codes():
        models = make_models(Settings())
        if name is None:
            found = models.copies()
            _done([copy.as_json() for copy in found], copies_lines(found), as_json=as_json)
            return
        doomed = copies_named(models.copies(), name)
        if agreed(doomed, yes=yes, can_ask=sys.stdin.isatty() and not as_json):
            gone = [models.remove_copy(copy.name) for copy in doomed]
            freed = sum(copy.nbytes for copy in gone)
            told: Json = {"removed": [copy.name for copy in gone], "freed_bytes": freed}
            _done(told, f"Deleted {len(gone)}, {human_bytes(freed)} freed.", as_json=as_json)


@contextmanager
def _steps() -> Iterator[StepPrinter]:
    steps = StepPrinter()
    try:
        yield steps
    finally:
        steps.close()


def main() -> None:
    """Entry point. Threads that wait between two operators sleep: the browser, and other programs, want the cores as well."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    app()
