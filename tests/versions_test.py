"""The supported versions of TensorFlow are the same in setup.cfg, the Makefile and the pages."""

import configparser
import os

import pytest
from packaging.requirements import Requirement

ROOT = os.path.join(os.path.dirname(__file__), "..")
OLDEST, NEWEST = "2.19", "2.21"


def _read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def _requirements(section="options", key="install_requires"):
    setup = configparser.ConfigParser()
    setup.read(os.path.join(ROOT, "setup.cfg"))
    lines = setup[section][key].strip().splitlines()
    found = [Requirement(line) for line in lines if not line.startswith("#")]
    return {requirement.name: requirement.specifier for requirement in found}


@pytest.mark.parametrize(
    "name, supported, unsupported",
    [
        ("tensorflow", ["2.19.0", "2.19.1", "2.20.0", "2.21.0"], ["2.18.1", "2.22.0"]),
        ("tensorflow-text", ["2.19.0", "2.20.1", "2.21.1"], ["2.18.1", "2.21.0", "2.22.0"]),
        ("tensorboard", ["2.19.0", "2.20.0", "2.21.0"], []),
        ("keras", ["3.15.0", "3.15.1"], ["3.10.0", "3.14.1", "3.16.0"]),
    ],
)
def test_requirements_admit_supported_versions_only(name, supported, unsupported):
    specifier = _requirements()[name]
    assert [version for version in supported if version not in specifier] == []
    assert [version for version in unsupported if version in specifier] == []


def test_cuda_extra_admits_the_same_versions():
    extra = _requirements("options.extras_require", "cuda")
    assert extra == {"tensorflow": _requirements()["tensorflow"]}


def test_oldest_version_is_tested():
    assert f'"tensorflow=={OLDEST}.*"' in _read("Makefile")
    assert "check: test-oldest" in _read(".github", "workflows", "ci.yml")


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/quickstart.md"])
def test_page_names_supported_versions(page):
    assert f"TensorFlow {OLDEST} to {NEWEST}" in _read(page)
