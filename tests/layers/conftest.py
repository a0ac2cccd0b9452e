import keras
import pytest


@pytest.fixture(autouse=True)
def _same_random_numbers():
    keras.utils.set_random_seed(1)
