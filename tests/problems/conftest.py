import pytest


@pytest.fixture
def no_checksums(monkeypatch):
    """Skip checksums, because the archives of the tests are not the official archives."""
    monkeypatch.setattr("ut_keras.data.writing.download._check", lambda path, raw_file: None)


@pytest.fixture(autouse=True)
def _no_downloads(monkeypatch):
    """Fail at once if a test requests a file from the network.

    Without a network, `download.fetch` would wait 20 seconds before its last attempt.
    """

    def fail(request, **options):
        raise AssertionError(f"A test must not use the network. Received: {request.full_url}.")

    monkeypatch.setattr("urllib.request.urlopen", fail)
