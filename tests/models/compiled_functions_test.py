"""An export in one thread must not change the compiled functions of other threads."""

import concurrent.futures
import types

from ut_keras.models.compiled_functions import CompiledFunctions


def test_exports_in_two_threads_keep_the_functions_of_decoding():
    """The second thread enters the context inside and leaves it after the first thread."""
    functions = CompiledFunctions(types.SimpleNamespace(num_steps=None))
    kept = functions.of_decoding()
    kept["search"] = print
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        second = functions.without_decoding()
        with functions.without_decoding():
            first_in_export = functions.of_decoding()
            assert first_in_export == {} and functions.of_decoding() is first_in_export
            assert pool.submit(functions.of_decoding).result() is kept
            pool.submit(second.__enter__).result()
            assert pool.submit(functions.of_decoding).result() == {}
        assert functions.of_decoding() is kept
        pool.submit(second.__exit__, None, None, None).result()
        assert pool.submit(functions.of_decoding).result() is kept
    assert functions.of_decoding() is kept and kept == {"search": print}
