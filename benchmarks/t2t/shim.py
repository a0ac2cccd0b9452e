"""Make tensor2tensor 1.15.7 importable with a recent TensorFlow (import this module first)."""

import os, sys, types

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import importlib.util as _iu

if _iu.find_spec("tf_keras") is not None:
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", os.environ.get("T2T_ONEDNN", "0"))
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import numpy as np

for _n, _t in (("int", int), ("float", float), ("bool", bool), ("object", object), ("str", str)):
    if _n not in np.__dict__:
        setattr(np, _n, _t)
import importlib.util


class _Any(types.ModuleType):
    """A module that has every attribute."""

    __path__ = []

    def __getattr__(self, n):
        if n.startswith("__") and n.endswith("__"):
            raise AttributeError(n)
        if n[:1].isupper():
            return type(n, (object,), {})
        m = _Any(self.__name__ + "." + n)
        return m

    def __call__(self, *a, **k):
        return None


def fake(*names):
    for n in names:
        try:
            if importlib.util.find_spec(n.split(".")[0]) is not None and "." not in n:
                continue
        except Exception:
            pass
        parts = n.split(".")
        for i in range(1, len(parts) + 1):
            p = ".".join(parts[:i])
            if p not in sys.modules:
                sys.modules[p] = _Any(p)


fake(
    "gym",
    "gym.spaces",
    "gym.wrappers",
    "gym.core",
    "gym.envs",
    "gym.envs.registration",
    "gym.utils",
    "dopamine",
    "oauth2client",
    "oauth2client.client",
    "googleapiclient",
    "googleapiclient.discovery",
    "kfac",
    "bz2file",
    "cv2",
    "pypng",
    "png",
    "tensorflow_gan",
    "tensorflow_addons",
    "tf_slim",
    "atari_py",
    "moviepy",
    "gevent",
    "gunicorn",
    "nltk",
    "flask",
)

# `import tensor2tensor.models` would import every model (RL, GAN, video, ...). This replacement
# imports only the needed models.
import tensorflow.compat.v1 as _tf

_tf.disable_v2_behavior()
try:
    _est = _tf.estimator
    _est.ModeKeys
except Exception:
    # TensorFlow >= 2.16 has no Estimator. T2T's models need only the names of the Estimator API.
    _est = _Any("tensorflow.compat.v1.estimator")

    class _ModeKeys(object):
        TRAIN, EVAL, PREDICT = "train", "eval", "infer"

    _est.ModeKeys = _ModeKeys
    _est.SessionRunHook = _tf.train.SessionRunHook
    sys.modules["tensorflow.compat.v1.estimator"] = _est
    try:
        _tf.__dict__["estimator"] = _est
        setattr(_tf, "estimator", _est)
    except Exception:
        pass
# Load Keras before the fake modules below exist. With tf_keras, `_tf.keras` does not load the
# separate package `keras`. Without this import, tensorflow_addons would load `keras` too late.
_ = _tf.keras.layers
import keras as _keras

fake("PIL", "PIL.Image", "matplotlib", "matplotlib.pyplot", "pandas")
_spec = importlib.util.find_spec("tensor2tensor")
_models = types.ModuleType("tensor2tensor.models")
_models.__path__ = [os.path.join(os.path.dirname(_spec.origin), "models")]
sys.modules["tensor2tensor.models"] = _models
from tensorflow.python.framework import ops as _ops

if not hasattr(_ops, "Tensor"):
    _ops.Tensor = _tf.Tensor  # tf_slim uses this attribute
for _n in ("IndexedSlices", "Operation", "Graph", "GraphKeys"):
    if not hasattr(_ops, _n):
        setattr(_ops, _n, getattr(_tf, _n))
