"""Tests of the grammar of --hparams, which does not depend on the fields."""

import pytest

from ut_keras.hparam_schema import overrides
from ut_keras.hparam_schema.field import HParamError, UnquotedWord


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("  ", {}),
        ("a=1", {"a": "1"}),
        ("a=1,b=-2e-3", {"a": "1", "b": "-2e-3"}),
        (" a = 1 ,\n b = 2 ,", {"a": "1", "b": "2"}),
        ("a=", {"a": ""}),
        ("a=,b=1", {"a": "", "b": "1"}),
        ("a=x*y z", {"a": "x*y z"}),
        ("a=/x/y=z", {"a": "/x/y=z"}),
        ("a=it's", {"a": "it's"}),
        ("a='x,y',b=\"p,'q'\"", {"a": "x,y", "b": "p,'q'"}),
        ("a='b=1',c=2", {"a": "b=1", "c": "2"}),
        ("a=''", {"a": ""}),
        ("a=[]", {"a": []}),
        ("a=[1,2],b=3", {"a": ["1", "2"], "b": "3"}),
        ("a=[ 1 2, 3 ]", {"a": ["1", "2", "3"]}),
        ("a=['x,y',z]", {"a": ["x,y", "z"]}),
    ],
)
def test_parse_returns_values(text, expected):
    assert overrides.parse(text) == expected


def test_parse_marks_unquoted_words():
    values = overrides.parse("a=None,b='None',c=[1,'2']")
    assert type(values["a"]) is UnquotedWord
    assert type(values["b"]) is str
    assert [type(v) for v in values["c"]] == [UnquotedWord, str]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hidden_size", r"name=value pairs.*Received: 'hidden_size' in"),
        ("a=1,,b=2", r"name=value pairs.*Received: ',b=2' in"),
        ("=1", "name=value pairs"),
        ("a=x,y", r"quotes around a value .*comma.*Received: 'y' in 'a=x,y'"),
        ("a='x,y", 'A quote must be closed. Received: "\'x,y"'),
        ("a=['x]", "A quote must be closed"),
        ("a=[1,2", r"A list must end with '\]'. Received: '\[1,2'"),
        ("a='x'y", "The value of a must be followed by .* Received: 'y'"),
        ("a=1,b=2,a=1", "only once. Received: a twice"),
    ],
)
def test_parse_rejects_malformed_text(text, message):
    with pytest.raises(HParamError, match=message) as error:
        overrides.parse(text)
    assert "\n" not in str(error.value)
