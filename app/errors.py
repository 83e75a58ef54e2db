"""Everything that can go wrong, as one tree; each error carries a sentence that a user can act on.

FaderError
├── RefusedInput            the request can't be carried out as asked; nothing was changed (exit code 2)
│   ├── BadParameter        a generation parameter of the wrong type or out of range; names it
│   └── NotFound            no conversation, message, run or file of that id
├── ModelError              a model could not be loaded or used
│   ├── ModelNotFound       no such folder, file or hub id (or no network to fetch it)
│   ├── ModelDamaged        files are missing, truncated or don't match their checksum
│   ├── UnsupportedModel    an architecture or format that Fader can't run
│   ├── OutOfMemory         the machine's or the card's memory does not suffice
│   ├── NoModel             a message was sent while no model is loaded
│   ├── ProcessLost         one of the processes over which a model is spread has ended
│   └── RemoteFailed        a server elsewhere can't be reached, refused, or broke off
├── StoreError              the conversations could not be read or written
│   ├── NewerDatabase       written by a later Fader; left untouched
│   ├── DamagedDatabase     SQLite can't read the file
│   ├── StoreBusy           another program holds the file for longer than we wait
│   ├── StoreFull           no space left on the disk
│   └── StoreReadOnly       no permission to write
├── RunFailed               generation raised; the cause's message is in the sentence
└── Cancelled               the user stopped a load or a run
"""

from __future__ import annotations


class FaderError(Exception):
    """Base of all errors that reach a user; ``str(error)`` is the sentence shown."""


class RefusedInput(FaderError):
    """The request can't be carried out as asked; nothing was changed."""


class BadParameter(RefusedInput):
    """A generation parameter was refused; ``name`` is the parameter, ``why`` the reason with its range."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


class NotFound(RefusedInput):
    """Nothing of that id exists."""


class ModelError(FaderError):
    """A model could not be loaded or used."""


class ModelNotFound(ModelError):
    """No such folder, file or hub id, or no network to fetch it."""


class ModelDamaged(ModelError):
    """Files are missing, truncated, or don't match their checksum."""


class UnsupportedModel(ModelError):
    """An architecture or a format that can't be run."""


class OutOfMemory(ModelError):
    """Memory does not suffice; the sentence advises what to make smaller. ``missing``: bytes that would have to be freed, where known."""

    def __init__(self, sentence: str, missing: int | None = None) -> None:
        super().__init__(sentence)
        self.missing = missing


class NoModel(ModelError):
    """No model is loaded."""


class ProcessLost(ModelError):
    """One of the processes over which a model is spread has ended; it can't compute until it is loaded again."""


class RemoteFailed(ModelError):
    """A server elsewhere, whose model was chosen, can't be reached, refused the request, or broke the reply off."""


class StoreError(FaderError):
    """The conversations could not be read or written."""


class NewerDatabase(StoreError):
    """The file was written by a later version of Fader and was left untouched."""


class DamagedDatabase(StoreError):
    """SQLite can't read the file."""


class StoreBusy(StoreError):
    """Another program holds the file for longer than we wait."""


class StoreFull(StoreError):
    """No space is left on the disk."""


class StoreReadOnly(StoreError):
    """No permission to write."""


class RunFailed(FaderError):
    """Generation raised; the cause's message is in the sentence."""


class Cancelled(FaderError):
    """The user stopped a load or a run."""
