"""Downloads models from the Hugging Face hub, and uploads models to the hub.

    ut_keras.load("hf://user/name")            "hf://user/name@v1" loads a branch, tag or commit
    run.push("hf://user/name")

The models have the format of `portable`. This module requires the extra `hub`. The
access token comes from `hf auth login` or from the environment variable HF_TOKEN.
huggingface_hub manages the cache and the offline mode (HF_HUB_OFFLINE=1). Only the files that
`portable` writes are downloaded.
"""

import os
import re
import tempfile
from typing import Any

from ut_keras.errors import DataError, UsageError
from ut_keras.process import extras

PREFIX = "hf://"
_ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?", re.ASCII)
_CARD = """---
library_name: ut_keras
tags: [universal-transformer, tensorflow, keras]
---
# {name}

    pip install -e ".[hub]"    # in a clone of ut_keras

    import ut_keras

    run = ut_keras.load("{address}")
"""


def check(address: str) -> None:
    """Check an address, and check that huggingface_hub is installed.

    The function does not import TensorFlow.

    Raises:
        UsageError: in the same cases as `fetch`.
    """
    _parse(address)
    _library()


def fetch(address: str) -> str:
    """Return the folder of a model, for `portable.load`.

    The function downloads the model if it is not cached.

    Args:
        address: str, "hf://user/name" or "hf://user/name@revision".

    Raises:
        DataError: if the model does not exist on the hub, or if the hub cannot be reached and the
            model is not in the cache.
        UsageError: if the address is invalid, or huggingface_hub is not installed.
    """
    from ut_keras.inference import portable  # this import loads TensorFlow

    repository, revision = _parse(address)
    hub, files = _library(), [portable.CONFIG, portable.WEIGHTS, "vocab.*"]
    try:
        folder = hub.snapshot_download(
            repository, revision=revision, allow_patterns=files, library_name="ut_keras"
        )
    except Exception as error:  # the library, the connection or the disk can cause any error
        from huggingface_hub import constants

        raise _hub_error(address, error, f"the cache is {constants.HF_HUB_CACHE}") from error
    if not portable.exists(folder):
        raise DataError(
            f"{address} must be a model written by run.push or run.save. "
            f"Received: one without {portable.CONFIG}."
        )
    if missing := portable.missing(folder):
        commit = os.path.basename(folder)
        received = commit if revision == commit else f"{revision or 'main'} ({commit})"
        raise DataError(
            f"{address} must contain {', '.join(missing)}, as its {portable.CONFIG} says. "
            f"Received: revision {received}, which lacks these files."
        )
    return folder


def push(address: str, run: Any, private: bool | None = None, card: str = "") -> str:
    """Upload a run in one commit, and create the repository if it does not exist.

    Args:
        address: str, "hf://user/name".
        run: `SavedRun`.
        private: bool. Whether a new repository is private. None: the default of the repository's
            owner.
        card: str, the content of README.md. Default: a README.md that shows how to load the model,
            unless the repository already has a README.md.

    Returns:
        str, the URL of the commit.

    Raises:
        DataError: if the hub rejects the upload.
        UsageError: in the same cases as `fetch`, or if the address has a revision.
    """
    repository, revision = _parse(address)
    if private is not None and not isinstance(private, bool):
        raise UsageError(f"private must be True, False or None. Received: {private!r}.")
    if not isinstance(card, str):
        raise UsageError(f"card must be a str. Received: {card!r}.")
    if revision:
        raise UsageError(f"push cannot write to a revision. Received: the revision {revision!r}.")
    hub = _library()
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.path.join(temporary, "run")
        run.save(folder)
        try:
            api = hub.HfApi(library_name="ut_keras")
            api.create_repo(repository, private=private, exist_ok=True)
            if not card and not api.file_exists(repository, "README.md"):
                card = _CARD.format(name=repository.split("/")[1], address=address)
            if card:
                with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
                    file.write(card)
            commit = api.upload_folder(repo_id=repository, folder_path=folder)
        except Exception as error:
            raise _hub_error(
                address, error, "`hf auth login` or HF_TOKEN gives the token"
            ) from error
    return str(commit)


def _parse(address):
    found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if not found:
        raise UsageError(
            f"A model on the hub must be hf://user/name or hf://user/name@revision. "
            f"Received: {address!r}."
        )
    return found.groups()


def _library():
    try:
        import huggingface_hub
    except ImportError as error:
        raise UsageError(
            f"The hub requires huggingface_hub. Received: none. {extras.install_hint('hub')}"
        ) from error
    return huggingface_hub


def _hub_error(address, error, hint):
    reason = " ".join(str(error).split()) or type(error).__name__
    return DataError(f"{address} cannot be reached ({hint}). Received: {reason[:300]}")
