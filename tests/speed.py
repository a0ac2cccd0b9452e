"""Settings that make tests faster and change no result except tracebacks."""

import gc


def collect_garbage_less_often():
    """Raise the threshold of Python's garbage collection.

    A graph has about 10,000 Python objects, and most tests trace several graphs. With Python's
    default threshold of 700, garbage collection takes up to a tenth of the test time.
    """
    gc.set_threshold(20_000, 10, 10)


def ignore_imported_objects():
    """Exclude imported modules from garbage collection. TensorFlow creates a million objects."""
    gc.freeze()


def give_all_operations_one_traceback():
    """Give each operation of a graph the same traceback.

    TensorFlow records the Python stack of each operation that it adds to a graph. The stack only
    appears in error messages. A test has a deep stack, so recording it takes a tenth of the
    time of a trace.
    """
    from tensorflow.python.util import tf_stack

    traceback = tf_stack.extract_stack()
    tf_stack.extract_stack = lambda stacklevel=1: traceback
